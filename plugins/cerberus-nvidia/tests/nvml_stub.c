/* A libnvidia-ml.so.1 of up to four cards that a test sets through the stub_* functions.
 *
 * Only what cerberus-nvidia asks for is here; any other call raises in pynvml. The list
 * of processes that draw is missing, as in an old driver. Codes: nvml.h. */
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7 };
#define UNKNOWN (~0ULL)
#define CARDS 4

typedef struct {
    unsigned long long total, used, energy_mj, process_bytes;
    unsigned power_mw, limit_mw, util, temperature, pstate, pid;
    int error; /* of every call for this card */
} card_t;

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned instance, compute;
} process_t;

static card_t cards[CARDS];
static unsigned count;
static int open_count, init_error, driver_error;

/* For the tests. */

void stub_reset(void) {
    memset(cards, 0, sizeof cards);
    count = 0;
    init_error = driver_error = 0;
    open_count = 0;
}
void stub_count(unsigned n) { count = n; }
void stub_init_error(int code) { init_error = code; }
void stub_driver_error(int code) { driver_error = code; }
void stub_card_error(unsigned i, int code) { cards[i].error = code; }
void stub_memory(unsigned i, unsigned long long total, unsigned long long used) {
    cards[i].total = total;
    cards[i].used = used;
}
void stub_power(unsigned i, unsigned mw, unsigned limit_mw) {
    cards[i].power_mw = mw;
    cards[i].limit_mw = limit_mw;
}
void stub_energy(unsigned i, unsigned long long mj) { cards[i].energy_mj = mj; }
void stub_load(unsigned i, unsigned util, unsigned temperature, unsigned pstate) {
    cards[i].util = util;
    cards[i].temperature = temperature;
    cards[i].pstate = pstate;
}
void stub_process(unsigned i, unsigned pid, unsigned long long bytes) {
    cards[i].pid = pid;
    cards[i].process_bytes = bytes;
}
int stub_open_count(void) { return open_count; }

/* The library. */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (init_error) return init_error;
    open_count++;
    return SUCCESS;
}
int nvmlShutdown(void) {
    if (!open_count) return UNINITIALIZED;
    open_count--;
    return SUCCESS;
}
const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "stub error %d", code);
    return text;
}
static int ready(void) {
    if (!open_count) return UNINITIALIZED;
    return driver_error;
}
static int check(card_t *card) {
    int code = ready();
    return code ? code : card->error;
}
int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = count;
    return ready();
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, card_t **out) {
    if (i >= count) return INVALID;
    *out = &cards[i];
    return ready();
}
int nvmlDeviceGetName(card_t *card, char *out, unsigned size) {
    snprintf(out, size, "Stub %d", (int)(card - cards));
    return check(card);
}
int nvmlDeviceGetUUID(card_t *card, char *out, unsigned size) {
    snprintf(out, size, "GPU-stub-%d", (int)(card - cards));
    return check(card);
}
int nvmlDeviceGetMemoryInfo(card_t *card, memory_t *out) {
    if (!card->total) return NOT_SUPPORTED;
    out->total = card->total;
    out->used = card->used;
    out->free = card->total - card->used;
    return check(card);
}
static int number(card_t *card, unsigned value, unsigned *out) {
    if (!value) return NOT_SUPPORTED;
    *out = value;
    return check(card);
}
int nvmlDeviceGetPowerUsage(card_t *card, unsigned *out) {
    return number(card, card->power_mw, out);
}
int nvmlDeviceGetEnforcedPowerLimit(card_t *card, unsigned *out) {
    (void)card, (void)out;
    return NOT_SUPPORTED;
}
int nvmlDeviceGetPowerManagementLimit(card_t *card, unsigned *out) {
    return number(card, card->limit_mw, out);
}
int nvmlDeviceGetTemperature(card_t *card, int sensor, unsigned *out) {
    (void)sensor;
    return number(card, card->temperature, out);
}
int nvmlDeviceGetPerformanceState(card_t *card, unsigned *out) {
    *out = card->pstate;
    return check(card);
}
int nvmlDeviceGetUtilizationRates(card_t *card, utilization_t *out) {
    out->memory = 0;
    return number(card, card->util, &out->gpu);
}
int nvmlDeviceGetTotalEnergyConsumption(card_t *card, unsigned long long *out) {
    if (card->energy_mj == UNKNOWN) return NOT_SUPPORTED;
    *out = card->energy_mj;
    return check(card);
}
int nvmlDeviceGetComputeRunningProcesses_v3(card_t *card, unsigned *n, process_t *out) {
    unsigned room = *n;
    *n = card->pid ? 1 : 0;
    if (*n > room) return TOO_SMALL;
    if (*n) {
        memset(out, 0, sizeof *out);
        out->pid = card->pid;
        out->used = card->process_bytes;
    }
    return check(card);
}
