/* A closed-loop load generator: N keep-alive clients, each asks, reads the whole
 * answer, checks it and asks again. One thread, epoll. Prints one JSON object.
 *
 *   loadgen PORT MODEL TOKEN CLIENTS SECONDS WARMUP_S STREAM CHUNKS RATE WIRE
 *
 * TOKEN "-" sends none; STREAM is 0 or 1; WIRE is chat (OpenAI's Chat Completions)
 * or messages (Anthropic's Messages). Times are in microseconds, measured
 * after the warm-up. A chunk's delay is the time since the upstream sent it
 * (CLOCK_MONOTONIC, which all processes of a machine share).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 1024, LINE = 8192, GRACE_S = 20, MAX_ERRORS = 1000 };
enum body { SIZED, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER };

struct client {
  int fd, busy, in_head, status, chunked, closes;
  enum body state;
  long begun, first, start_at; /* ns */
  size_t left, line_len, out_done;
  int chunks, finishes, usages, dones, after_done;
  char line[LINE]; /* the header or event line, or the plain body, so far */
};

/* How an answer is read: by words that stand in it. `usage_too`: usage counts beside it alone. */
struct wire {
  const char *name, *path, *more, *stream;
  const char *content, *finish, *usage, *usage_too, *done;
};

static const struct wire wires[] = {
    {"chat", "/v1/chat/completions", "",
     ",\"stream\":true,\"stream_options\":{\"include_usage\":true}", "\"content\":\"t",
     "\"finish_reason\":\"stop\"", "\"completion_tokens\"", "", "[DONE]"},
    {"messages", "/v1/messages", ",\"max_tokens\":1000", ",\"stream\":true", "\"text\":\"t",
     "\"stop_reason\":\"end_turn\"", "\"output_tokens\"", "\"stop_reason\":\"end_turn\"",
     "\"type\":\"message_stop\""},
};

struct samples {
  double *values;
  size_t count, room;
};

static struct client clients[MAX_CLIENTS];
static struct samples latency, ttft, delay;
static char request[16 * 1024], complaint[256];
static size_t request_len;
static const struct wire *wire;
static int ep, port, streaming, wanted;
static long measure_from, stop_at;
static long all_requests, all_chunks, requests, chunks, errors, connects;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void keep(struct samples *s, long ns) {
  if (s->count == s->room) {
    s->room = s->room ? s->room * 2 : 65536;
    s->values = realloc(s->values, s->room * sizeof *s->values);
  }
  s->values[s->count++] = (double)ns / 1000.0;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s) {
  if (!s->count) {
    printf(",\"%s\":null", name);
    return;
  }
  qsort(s->values, s->count, sizeof *s->values, ascending);
  printf(",\"%s\":{\"p50\":%.1f,\"p99\":%.1f}", name, s->values[(s->count - 1) / 2],
         s->values[(size_t)((double)(s->count - 1) * 0.99)]);
}

static void ask(struct client *c);

static void open_connection(struct client *c) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int one = 1;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(c->fd, (struct sockaddr *)&at, sizeof at)) {
    perror("connect");
    exit(1);
  }
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
  connects++;
}

static void close_connection(struct client *c) {
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
}

static void failed(struct client *c, const char *what) {
  if (!errors++)
    snprintf(complaint, sizeof complaint, "%s (status %d, %d chunks)", what, c->status, c->chunks);
  c->busy = 0;
  close_connection(c);
  if (errors >= MAX_ERRORS) stop_at = now();
}

static void ask(struct client *c) {
  if (c->fd < 0) open_connection(c);
  c->busy = c->in_head = 1;
  c->status = c->chunked = c->closes = 0;
  c->chunks = c->finishes = c->usages = c->dones = c->after_done = 0;
  c->left = c->line_len = 0;
  c->first = 0;
  c->begun = now();
  /* A request is about 1.5 KB: an empty socket buffer takes it in one go. */
  if (send(c->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
    failed(c, "request not sent");
}

static void finished(struct client *c, long at) {
  const char *wrong = NULL;
  if (c->status != 200)
    wrong = "status";
  else if (streaming && (c->chunks != wanted || c->finishes != 1 || c->usages != 1 ||
                         c->dones != 1 || c->after_done))
    wrong = "stream not whole";
  else if (!streaming && (c->chunks != 1 || c->usages != 1 || c->line[c->line_len - 1] != '}'))
    wrong = "answer not whole";
  if (wrong) {
    failed(c, wrong);
    return;
  }
  all_requests++;
  all_chunks += c->chunks;
  if (at >= measure_from && at < stop_at) {
    requests++;
    keep(&latency, at - c->begun);
    if (c->first && c->begun >= measure_from) keep(&ttft, c->first - c->begun);
  }
  c->busy = 0;
  if (c->closes) close_connection(c);
}

static void event_line(struct client *c, long at) {
  char *line = c->line;
  if (strncmp(line, "data:", 5)) return;
  line += line[5] == ' ' ? 6 : 5;
  if (c->dones) c->after_done = 1;
  char *content = strstr(line, wire->content);
  if (content) {
    if (!c->chunks++) c->first = at;
    if (at >= measure_from && at < stop_at) {
      chunks++;
      keep(&delay, at - strtol(content + strlen(wire->content), NULL, 10));
    }
    return;
  }
  if (strstr(line, wire->done)) c->dones++;
  if (strstr(line, wire->finish)) c->finishes++;
  if (strstr(line, wire->usage) && strstr(line, wire->usage_too)) c->usages++;
}

static void body_bytes(struct client *c, const char *data, size_t len, long at) {
  if (!streaming || c->status != 200) {
    if (len > LINE - 1 - c->line_len) len = LINE - 1 - c->line_len;
    memcpy(c->line + c->line_len, data, len);
    c->line_len += len;
    return;
  }
  for (size_t i = 0; i < len; i++) {
    if (data[i] == '\n') {
      c->line[c->line_len] = 0;
      event_line(c, at);
      c->line_len = 0;
    } else if (c->line_len < LINE - 1)
      c->line[c->line_len++] = data[i];
  }
}

static void body_ended(struct client *c, long at) {
  if (!streaming && c->line_len) {
    c->line[c->line_len] = 0;
    c->chunks = strstr(c->line, wire->content) != NULL;
    c->usages = strstr(c->line, wire->usage) != NULL;
  }
  finished(c, at);
}

static void head_line(struct client *c) {
  char *line = c->line;
  if (!c->status) {
    if (sscanf(line, "HTTP/1.1 %d", &c->status) != 1) c->status = -1;
  } else if (!strncasecmp(line, "content-length:", 15))
    c->left = strtoul(line + 15, NULL, 10);
  else if (!strncasecmp(line, "transfer-encoding:", 18))
    c->chunked = strcasestr(line, "chunked") != NULL;
  else if (!strncasecmp(line, "connection:", 11))
    c->closes = strcasestr(line, "close") != NULL;
}

static void feed(struct client *c, const char *data, size_t len, long at) {
  size_t i = 0;
  while (i < len && c->busy) {
    if (c->in_head) {
      char byte = data[i++];
      if (byte != '\n') {
        if (byte != '\r' && c->line_len < LINE - 1) c->line[c->line_len++] = byte;
        continue;
      }
      c->line[c->line_len] = 0;
      if (c->line_len) {
        head_line(c);
        c->line_len = 0;
        continue;
      }
      c->in_head = 0;
      c->state = c->chunked ? CHUNK_SIZE : SIZED;
      if (!c->chunked && !c->left) body_ended(c, at);
    } else if (c->state == SIZED || c->state == CHUNK_DATA) {
      size_t part = len - i < c->left ? len - i : c->left;
      body_bytes(c, data + i, part, at);
      i += part;
      c->left -= part;
      if (!c->left && c->state == SIZED) body_ended(c, at);
      if (!c->left && c->state == CHUNK_DATA) c->state = CHUNK_END;
    } else {
      char byte = data[i++];
      if (c->state == CHUNK_SIZE && byte != '\r' && byte != '\n') {
        int digit = byte >= 'a' ? byte - 'a' + 10 : byte >= 'A' ? byte - 'A' + 10 : byte - '0';
        c->left = c->left * 16 + (size_t)digit;
      } else if (byte == '\n') {
        if (c->state == CHUNK_END) {
          c->state = CHUNK_SIZE;
        } else if (c->state == TRAILER)
          body_ended(c, at); /* no trailers are sent here */
        else
          c->state = c->left ? CHUNK_DATA : TRAILER;
      }
    }
  }
}

static void readable(struct client *c) {
  static char data[256 * 1024];
  while (c->fd >= 0) {
    ssize_t n = recv(c->fd, data, sizeof data, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      if (c->busy) failed(c, "connection lost");
      close_connection(c);
      return;
    }
    if (c->busy) feed(c, data, (size_t)n, now());
    if (!c->busy) return; /* the next request is asked by the main loop */
  }
}

static void build_request(const char *model, const char *token, int rate) {
  char body[4096], fill[1000], bearer[512] = "";
  for (size_t i = 0; i < sizeof fill; i++) fill[i] = "lorem ipsum dolor sit amet "[i % 27];
  fill[sizeof fill - 1] = 0;
  snprintf(body, sizeof body,
           "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"%s\"},"
           "{\"role\":\"user\",\"content\":\"@n=%d r=%d@\"}],\"temperature\":0.7%s%s}",
           model, fill, wanted, rate, wire->more, streaming ? wire->stream : "");
  if (strcmp(token, "-")) snprintf(bearer, sizeof bearer, "Authorization: Bearer %s\r\n", token);
  request_len = (size_t)snprintf(
      request, sizeof request,
      "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
      "Content-Type: application/json\r\nUser-Agent: loadgen\r\n%sContent-Length: %zu\r\n\r\n%s",
      wire->path, port, bearer, strlen(body), body);
}

int main(int argc, char **argv) {
  if (argc != 11) return 2;
  for (size_t i = 0; i < sizeof wires / sizeof *wires; i++)
    if (!strcmp(argv[10], wires[i].name)) wire = &wires[i];
  if (!wire) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  port = atoi(argv[1]);
  int count = atoi(argv[4]), rate = atoi(argv[9]);
  streaming = atoi(argv[7]);
  wanted = atoi(argv[8]);
  if (count < 1 || count > MAX_CLIENTS) return 2;
  build_request(argv[2], argv[3], rate);
  ep = epoll_create1(EPOLL_CLOEXEC);
  long begin = now();
  measure_from = begin + (long)(atof(argv[6]) * 1e9);
  stop_at = measure_from + (long)(atof(argv[5]) * 1e9);
  long give_up = stop_at + GRACE_S * 1000000000L;
  /* Paced streams begin spread over one interval, so that chunks don't come in bursts. */
  for (int i = 0; i < count; i++) {
    clients[i].fd = -1;
    clients[i].start_at = begin + (rate ? 1000000000L / rate * i / count : 0);
  }
  for (int running = 1; running;) {
    long at = now();
    int waiting = 0;
    running = 0;
    for (int i = 0; i < count; i++) {
      struct client *c = &clients[i];
      if (!c->busy && at < stop_at) {
        if (c->start_at <= at)
          ask(c);
        else
          waiting = 1;
      }
      running |= c->busy || at < stop_at;
    }
    if (at > give_up) {
      for (int i = 0; i < count; i++)
        if (clients[i].busy) failed(&clients[i], "no end");
      break;
    }
    struct epoll_event events[256];
    int ready = epoll_wait(ep, events, 256, waiting ? 1 : 100);
    for (int i = 0; i < ready; i++) readable(events[i].data.ptr);
  }
  double seconds = (double)(stop_at - measure_from) / 1e9;
  printf("{\"seconds\":%.3f,\"wall_s\":%.3f,\"requests\":%ld,\"chunks\":%ld,\"all_requests\":%ld,"
         "\"all_chunks\":%ld,\"errors\":%ld,\"connects\":%ld,\"requests_per_s\":%.1f,"
         "\"chunks_per_s\":%.1f,\"complaint\":\"%s\"",
         seconds, (double)(now() - begin) / 1e9, requests, chunks, all_requests, all_chunks, errors,
         connects, (double)requests / seconds, (double)chunks / seconds, complaint);
  print_samples("latency_us", &latency);
  print_samples("ttft_us", &ttft);
  print_samples("delay_us", &delay);
  printf("}\n");
  return 0;
}
