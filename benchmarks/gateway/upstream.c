/* A fake OpenAI-shaped server that costs next to nothing: one thread, epoll,
 * HTTP/1.1 keep-alive.
 *
 *   upstream            listens on 127.0.0.1, a free port, and prints the port
 *
 *   GET  /v1/models             one model, "fake"
 *   POST /v1/chat/completions   "stream": true or not. The text "@n=N r=R@"
 *                               anywhere in the body asks for N chunks at R a
 *                               second (0: as fast as they go).
 *
 * Each chunk's content is "t<nanoseconds of CLOCK_MONOTONIC when it was sent>",
 * and each is one write, so that the reader can tell how long it was under way.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 4096, IN = 64 * 1024, OUT = 4096, BURST = 64 };

struct conn {
  int fd, active;      /* active: streams now */
  int sent, total;     /* chunks */
  int usage, ending;   /* usage wanted; the end is in `out` or sent */
  long interval, due;  /* ns */
  size_t have, out_len, out_done;
  char in[IN], out[OUT];
};

static struct conn *conns[MAX_FD];
static int streams[MAX_FD], stream_count; /* fds of paced streams */
static int ep, timer;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void watch(struct conn *c, int writing) {
  struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.fd = c->fd};
  epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
}

static void leave_streams(struct conn *c) {
  for (int i = 0; i < stream_count; i++)
    if (streams[i] == c->fd) {
      streams[i] = streams[--stream_count];
      return;
    }
}

static void drop(struct conn *c) {
  leave_streams(c);
  conns[c->fd] = NULL;
  close(c->fd);
  free(c);
}

/* Sends what is in `out`: 1 all, 0 later, -1 the connection is gone and freed. */
static int flush_out(struct conn *c) {
  while (c->out_done < c->out_len) {
    ssize_t n = send(c->fd, c->out + c->out_done, c->out_len - c->out_done, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (n <= 0) {
      drop(c);
      return -1;
    }
    c->out_done += (size_t)n;
  }
  c->out_len = c->out_done = 0;
  return 1;
}

/* One event as one HTTP chunk. */
static void put_event(struct conn *c, const char *json) {
  size_t len = strlen(json) + 8; /* "data: " and two line ends */
  c->out_len += (size_t)snprintf(c->out + c->out_len, OUT - c->out_len,
                                 "%zx\r\ndata: %s\n\n\r\n", len, json);
}

#define HEAD "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"fake\","
#define USAGE "\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":%d,\"total_tokens\":%d}"

/* Puts the next chunk, or after the last one the whole end, into `out`. */
static void next_piece(struct conn *c) {
  char json[512];
  if (c->sent++ < c->total) {
    snprintf(json, sizeof json,
             HEAD "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t%ld \"},\"finish_reason\":null}]}",
             now());
    put_event(c, json);
    return;
  }
  put_event(c, HEAD "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}");
  if (c->usage) {
    snprintf(json, sizeof json, HEAD "\"choices\":[]," USAGE "}", c->total, c->total + 200);
    put_event(c, json);
  }
  put_event(c, "[DONE]");
  c->out_len += (size_t)sprintf(c->out + c->out_len, "0\r\n\r\n");
  c->ending = 1;
}

static void take_request(struct conn *c);

/* Sends pieces while the socket takes them and, for a paced stream, while they are due. */
static void pump(struct conn *c) {
  for (int i = 0; i < BURST; i++) {
    int ok = flush_out(c);
    if (ok < 0) return;
    if (ok == 0) {
      watch(c, 1);
      return;
    }
    if (c->ending) {
      c->active = 0;
      leave_streams(c);
      watch(c, 0);
      take_request(c);
      return;
    }
    if (c->interval && c->due > now()) {
      watch(c, 0);
      return;
    }
    next_piece(c);
    c->due += c->interval;
  }
  watch(c, 1); /* others want their turn */
}

static void answer(struct conn *c, const char *body) {
  c->out_len = (size_t)snprintf(c->out, OUT,
                                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                "Content-Length: %zu\r\n\r\n%s",
                                strlen(body), body);
  if (flush_out(c) == 0) watch(c, 1);
}

static void chat(struct conn *c, const char *body) {
  int n = 16, rate = 0;
  const char *order = strstr(body, "@n="), *flag = strstr(body, "\"stream\"");
  if (order) sscanf(order, "@n=%d r=%d@", &n, &rate);
  if (flag) {
    flag += strcspn(flag, ":") + 1;
    flag += strspn(flag, " ");
  }
  if (!flag || strncmp(flag, "true", 4)) {
    char text[640];
    snprintf(text, sizeof text,
             "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"fake\","
             "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"t%ld \"},"
             "\"finish_reason\":\"stop\"}]," USAGE "}",
             now(), n, n + 200);
    answer(c, text);
    return;
  }
  c->active = 1;
  c->sent = c->ending = 0;
  c->total = n;
  c->usage = strstr(body, "\"include_usage\"") != NULL;
  c->interval = rate ? 1000000000L / rate : 0;
  c->due = now();
  c->out_len = (size_t)sprintf(c->out,
                               "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n");
  if (c->interval) streams[stream_count++] = c->fd;
  pump(c);
}

/* Answers the request in the buffer if it is whole. */
static void take_request(struct conn *c) {
  char *end = c->have ? memmem(c->in, c->have, "\r\n\r\n", 4) : NULL;
  if (!end) return;
  size_t length = 0, head = (size_t)(end - c->in) + 4;
  *end = 0;
  char *field = strcasestr(c->in, "\ncontent-length:");
  if (field) length = strtoul(field + 16, NULL, 10);
  int post = !strncmp(c->in, "POST", 4);
  *end = '\r';
  if (head + length > IN - 1) {
    drop(c);
    return;
  }
  if (c->have < head + length) return;
  static char body[IN];
  memcpy(body, c->in + head, length);
  body[length] = 0;
  c->have -= head + length;
  memmove(c->in, c->in + head + length, c->have);
  if (post)
    chat(c, body);
  else
    answer(c, "{\"object\":\"list\",\"data\":[{\"id\":\"fake\",\"object\":\"model\",\"created\":1,"
              "\"owned_by\":\"bench\"}]}");
}

static void readable(struct conn *c) {
  ssize_t n = recv(c->fd, c->in + c->have, IN - 1 - c->have, 0);
  if (n == 0 || (n < 0 && errno != EAGAIN)) {
    drop(c);
    return;
  }
  if (n < 0) return;
  c->have += (size_t)n;
  if (!c->active) take_request(c);
}

static void set_timer(void) {
  long first = 0;
  for (int i = 0; i < stream_count; i++) {
    long due = conns[streams[i]]->due;
    if (!first || due < first) first = due;
  }
  struct itimerspec t = {.it_value = {first / 1000000000L, first % 1000000000L}};
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void tick(void) {
  long ticks, at = now();
  if (read(timer, &ticks, sizeof ticks) < 0) return;
  int due[MAX_FD], count = 0;
  for (int i = 0; i < stream_count; i++)
    if (conns[streams[i]]->due <= at) due[count++] = streams[i];
  for (int i = 0; i < count; i++)
    if (conns[due[i]] && conns[due[i]]->active && !conns[due[i]]->out_len) pump(conns[due[i]]);
}

static void greet(int server) {
  int fd, one = 1;
  while ((fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    if (fd >= MAX_FD) {
      close(fd);
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct conn *c = calloc(1, sizeof *c);
    c->fd = fd;
    conns[fd] = c;
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
  }
}

int main(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the benchmark */
  int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(server, (struct sockaddr *)&at, size) || listen(server, 4096)) return 1;
  getsockname(server, (struct sockaddr *)&at, &size);
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  ep = epoll_create1(EPOLL_CLOEXEC);
  timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = server};
  epoll_ctl(ep, EPOLL_CTL_ADD, server, &e);
  e.data.fd = timer;
  epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e);
  for (;;) {
    struct epoll_event events[256];
    int count = epoll_wait(ep, events, 256, -1);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd == server)
        greet(server);
      else if (fd == timer)
        tick();
      else {
        if (conns[fd] && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(conns[fd]);
        if (conns[fd] && events[i].events & EPOLLOUT) {
          if (conns[fd]->active)
            pump(conns[fd]);
          else if (flush_out(conns[fd]) > 0)
            watch(conns[fd], 0);
        }
      }
    }
    if (count) set_timer();
  }
}
