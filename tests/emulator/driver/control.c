/* What tests ask and set. Every name here begins with emu: a real driver has none of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

Counters counters;
__thread bool inside_host_function;

/* ---- one lock for everything, and a condition for whoever waits for a host function to end ---------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static pthread_t owner;
static int depth;

void lock(void) {
    if (depth && pthread_equal(owner, pthread_self())) {
        depth++;
        return;
    }
    pthread_mutex_lock(&mutex);
    owner = pthread_self();
    depth = 1;
}

void unlock(void) {
    if (--depth == 0) pthread_mutex_unlock(&mutex);
}

int unlock_fully(void) {
    int held = depth;
    depth = 0;
    pthread_mutex_unlock(&mutex);
    return held;
}

void lock_again(int held) {
    pthread_mutex_lock(&mutex);
    owner = pthread_self();
    depth = held;
}

void wait_for_change(void) {
    int held = depth;
    depth = 0;
    pthread_cond_wait(&change, &mutex);
    owner = pthread_self();
    depth = held;
}

void tell_change(void) { pthread_cond_broadcast(&change); }

/* ---- personality ------------------------------------------------------------------------------------ */

static const size_t EIGHT_GIB = (size_t)8 << 30;
static const char *const KNOWN = "integrated, discrete, none";

Personality personality;

/* Which machine to be: "integrated" (a Jetson Orin), "discrete" (a card), "none" (a driver without GPU).
 * Nothing may be alive. Returns 0, or -1 for an unknown name. */
API int emuPersonality(const char *kind) {
    Personality next = {.present = true, .total_bytes = EIGHT_GIB};
    if (!strcmp(kind, "integrated")) {
        next.name = "Orin (emulated)";
        next.integrated = true;
        next.major = 8, next.minor = 7;
    } else if (!strcmp(kind, "discrete")) {
        next.name = "Ada card (emulated)";
        next.major = 8, next.minor = 9;
    } else if (!strcmp(kind, "none")) {
        next.present = false;
    } else {
        fprintf(stderr, "emulator: personality '%s': expected one of %s\n", kind, KNOWN);
        return -1;
    }
    personality = next;
    return 0;
}

/* A process that a test starts cannot call emuPersonality: the environment says it. */
__attribute__((constructor)) static void choose_personality(void) {
    const char *wanted = getenv("EDGE_SDK_EMULATOR");
    if (emuPersonality(wanted && *wanted ? wanted : "integrated")) exit(2);
}

/* Adds bytes to every address given out from now on. */
API void emuMisalign(size_t nbytes) { personality.misalignment = nbytes; }

/* ---- counters --------------------------------------------------------------------------------------- */

/* The counter of this name; UINT64_MAX where there is none. */
API uint64_t emuCounter(const char *name) {
    static const struct {
        const char *name;
        const uint64_t *value;
    } table[] = {
#define ROW(field) {#field, &counters.field},
        COUNTERS(ROW) LIVE(ROW)
#undef ROW
    };
    uint64_t found = UINT64_MAX;
    lock();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) found = *table[i].value;
    unlock();
    return found;
}

/* Names of all counters, with commas between them. */
API const char *emuCounterNames(void) {
#define NAME(field) #field ","
    return COUNTERS(NAME) LIVE(NAME) "";
#undef NAME
}

/* Sets the counts of what happened to 0; what is alive stays. */
API void emuResetCounters(void) {
    lock();
#define ZERO(field) counters.field = 0;
    COUNTERS(ZERO)
#undef ZERO
    unlock();
}

/* ---- calls and faults ------------------------------------------------------------------------------- */

enum { TRACE_LENGTH = 65536 };
static const char *trace[TRACE_LENGTH];
static size_t calls;
static char fault_function[64];
static long fault_countdown;
static int fault_code;

/* Lets the call number `nth` from now (1 is the next) of a function fail with a code, before it does
 * anything. "*" means any function. nth 0 takes the order back. */
API void emuFail(const char *function, long nth, int code) {
    lock();
    snprintf(fault_function, sizeof fault_function, "%s", function);
    fault_countdown = nth;
    fault_code = code;
    unlock();
}

/* Whether an ordered fault has not struck yet. */
API int emuFaultIsWaiting(void) { return fault_countdown > 0; }

/* Number of calls since emuForgetCalls, and the name of call `index` (from 0), NULL beyond the end. */
API size_t emuCalls(void) { return calls; }
API const char *emuCallName(size_t index) {
    return index < calls && index < TRACE_LENGTH ? trace[index] : NULL;
}
API void emuForgetCalls(void) { calls = 0; }

Result enter(const char *function) {
    Result answer = inside_host_function ? NOT_PERMITTED : SUCCESS;
    lock();
    if (calls < TRACE_LENGTH) trace[calls] = function;
    calls++;
    bool meant = !strcmp(fault_function, "*") || !strcmp(fault_function, function);
    if (fault_countdown > 0 && meant && --fault_countdown == 0) answer = fault_code;
    unlock();
    return answer;
}

/* ---- access to emulated device memory --------------------------------------------------------------- */

/* For host functions of tests, which stand in for kernels: where the host finds `nbytes` of device memory.
 * NULL, and counted as an illegal address, when they do not lie within one allocation. */
API void *emuHostAddress(Pointer address, size_t nbytes) {
    lock();
    void *found = backing_of(address, nbytes);
    if (!found) counters.illegal_addresses++;
    unlock();
    return found;
}
