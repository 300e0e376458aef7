/* Allocations. Each lies between guard pages, its end against the upper one; device memory has an address
 * that nobody may touch, and its bytes elsewhere. A freed address is never given out again. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulator.h"

enum { ALIGNMENT = 256, HOST_ALLOC_DEVICEMAP = 2, MEM_ATTACH_GLOBAL = 1 };
enum { FRESH_DEVICE_BYTE = 0xCD, FRESH_HOST_BYTE = 0xCE };

static Region *regions, *freed;

/* ---- pages ------------------------------------------------------------------------------------------ */

static size_t whole_pages(size_t nbytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (nbytes + page - 1) / page * page;
}

/* Maps `nbytes` between two guard pages; `file` is a memory file, or -1. Returns the first usable byte. */
static char *map_guarded(Region *region, int side, int protection, int file) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = whole_pages(region->nbytes + personality.misalignment);
    char *start = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    region->mapped[side] = start;
    region->mapped_bytes[side] = body + 2 * page;
    if (file >= 0)
        mmap(start + page, body, protection, MAP_SHARED | MAP_FIXED, file, 0);
    else if (protection != PROT_NONE)
        mprotect(start + page, body, protection);
    size_t slack = (body - region->nbytes - personality.misalignment) / ALIGNMENT * ALIGNMENT;
    return start + page + slack + personality.misalignment;
}

/* Gives the memory back and keeps the addresses shut, so that touching them later is noticed for sure. */
static void shut(Region *region) {
    for (int side = 0; side < 2; side++)
        if (region->mapped[side])
            mmap(region->mapped[side], region->mapped_bytes[side], PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    free(region);
}

/* ---- who owns an address ---------------------------------------------------------------------------- */

static bool within(uintptr_t start, size_t size, uintptr_t address, size_t nbytes) {
    return start && address >= start && address + nbytes <= start + size;
}

Region *region_on_device(Pointer address, size_t nbytes) {
    for (Region *region = regions; region; region = region->next)
        if (within(region->device, region->nbytes, (uintptr_t)address, nbytes)) return region;
    return NULL;
}

Region *region_on_host(const void *address, size_t nbytes) {
    for (Region *region = regions; region; region = region->next)
        if (within(region->host, region->nbytes, (uintptr_t)address, nbytes)) return region;
    return NULL;
}

char *backing_of(Pointer address, size_t nbytes) {
    Region *region = region_on_device(address, nbytes);
    return region ? region->backing + ((uintptr_t)address - region->device) : NULL;
}

bool touches_device_only(const void *address, size_t nbytes) {
    uintptr_t start = (uintptr_t)address;
    for (Region *region = regions; region; region = region->next)
        if (region->device && region->device != region->host && start < region->device + region->nbytes &&
            start + nbytes > region->device)
            return true;
    return false;
}

/* On an integrated GPU the host may not touch managed memory while the GPU has work.
 * Source: CUDA C++ programming guide, unified memory, devices without concurrent managed access. */
void protect_managed(bool protect) {
    if (!personality.integrated) return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (Region *region = regions; region; region = region->next)
        if (region->kind == MANAGED_MEMORY)
            mprotect((char *)region->mapped[1] + page, region->mapped_bytes[1] - 2 * page,
                     protect ? PROT_NONE : PROT_READ | PROT_WRITE);
}

/* ---- taking and giving back ------------------------------------------------------------------------- */

static void count_alive(const Region *region, int sign) {
    uint64_t *bytes = region->kind == PINNED_MEMORY ? &counters.live_host_bytes : &counters.live_device_bytes;
    *bytes += (uint64_t)sign * region->nbytes;
    counters.live_allocations += (uint64_t)sign;
}

static Result take(Kind kind, size_t nbytes, unsigned flags, Region **out) {
    if (!nbytes) return INVALID_VALUE;
    Result refused = refuse_during_capture();
    if (refused) return refused;
    if (counters.live_device_bytes + counters.live_host_bytes + nbytes > personality.total_bytes)
        return OUT_OF_MEMORY;
    Region *region = calloc(1, sizeof *region);
    region->kind = kind;
    region->nbytes = nbytes;
    region->flags = flags;
    if (kind == MANAGED_MEMORY) { /* two views of one memory: the host's, which can be closed, and ours */
        int file = memfd_create("managed", 0);
        if (file < 0 || ftruncate(file, (off_t)whole_pages(nbytes + personality.misalignment))) {
            free(region);
            return OUT_OF_MEMORY;
        }
        region->backing = map_guarded(region, 0, PROT_READ | PROT_WRITE, file);
        region->host = (uintptr_t)map_guarded(region, 1, PROT_READ | PROT_WRITE, file);
        region->device = region->host;
        close(file);
    } else {
        region->backing = map_guarded(region, 0, PROT_READ | PROT_WRITE, -1);
        if (kind == PINNED_MEMORY) region->host = (uintptr_t)region->backing;
        if (kind == DEVICE_MEMORY || flags & HOST_ALLOC_DEVICEMAP)
            region->device = (uintptr_t)map_guarded(region, 1, PROT_NONE, -1);
    }
    if (!region->backing) {
        shut(region);
        return OUT_OF_MEMORY;
    }
    memset(region->backing, kind == PINNED_MEMORY ? FRESH_HOST_BYTE : FRESH_DEVICE_BYTE, nbytes);
    region->next = regions;
    regions = region;
    count_alive(region, 1);
    *out = region;
    return SUCCESS;
}

/* Memory in use by a host function of another thread is given back when that function has ended. */
static bool anything_runs(void) {
    for (Stream *stream = all_streams; stream; stream = stream->next)
        if (stream->running) return true;
    return false;
}

static void give_back(Region **place) {
    Region *region = *place;
    *place = region->next;
    count_alive(region, -1);
    if (anything_runs()) {
        region->next = freed;
        freed = region;
    } else {
        shut(region);
    }
}

void reap_freed_regions(void) {
    if (anything_runs()) return;
    while (freed) {
        Region *next = freed->next;
        shut(freed);
        freed = next;
    }
}

size_t free_all_memory(void) {
    size_t count = 0;
    for (; regions; count++) give_back(&regions);
    return count;
}

/* ---- the driver's functions ------------------------------------------------------------------------- */

API Result cuMemGetInfo_v2(size_t *available, size_t *total) {
    ENTER_CONTEXT("cuMemGetInfo");
    *total = personality.total_bytes;
    *available = personality.total_bytes - counters.live_device_bytes - counters.live_host_bytes;
    return SUCCESS;
}

API Result cuMemAlloc_v2(Pointer *pointer, size_t nbytes) {
    ENTER_CONTEXT("cuMemAlloc");
    Region *region;
    lock();
    Result answer = take(DEVICE_MEMORY, nbytes, 0, &region);
    if (!answer) {
        counters.device_allocations++;
        *pointer = region->device;
    }
    unlock();
    return answer;
}

API Result cuMemAllocManaged(Pointer *pointer, size_t nbytes, unsigned flags) {
    ENTER_CONTEXT("cuMemAllocManaged");
    if (flags != MEM_ATTACH_GLOBAL) return flags ? NOT_SUPPORTED : INVALID_VALUE;
    Region *region;
    lock();
    Result answer = take(MANAGED_MEMORY, nbytes, flags, &region);
    if (!answer) {
        counters.managed_allocations++;
        *pointer = region->device;
    }
    unlock();
    return answer;
}

API Result cuMemFree_v2(Pointer pointer) {
    ENTER_CONTEXT("cuMemFree");
    if (!pointer) return SUCCESS;
    lock();
    Result answer = refuse_during_capture();
    if (!answer) {
        drain_all(); /* freeing waits for the device */
        answer = INVALID_VALUE;
        for (Region **place = &regions; *place; place = &(*place)->next) {
            if ((*place)->device != pointer || (*place)->kind == PINNED_MEMORY) continue;
            (*place)->kind == MANAGED_MEMORY ? counters.managed_frees++ : counters.device_frees++;
            give_back(place);
            answer = SUCCESS;
            break;
        }
    }
    unlock();
    return answer;
}

API Result cuMemHostAlloc(void **pointer, size_t nbytes, unsigned flags) {
    ENTER_CONTEXT("cuMemHostAlloc");
    Region *region;
    lock();
    Result answer = take(PINNED_MEMORY, nbytes, flags, &region);
    if (!answer) {
        counters.host_allocations++;
        *pointer = (void *)region->host;
    }
    unlock();
    return answer;
}

API Result cuMemAllocHost_v2(void **pointer, size_t nbytes) { return cuMemHostAlloc(pointer, nbytes, 0); }

API Result cuMemFreeHost(void *pointer) {
    ENTER_CONTEXT("cuMemFreeHost");
    lock();
    Result answer = refuse_during_capture();
    if (!answer) {
        drain_all();
        answer = INVALID_VALUE;
        for (Region **place = &regions; *place; place = &(*place)->next) {
            if ((*place)->host != (uintptr_t)pointer || (*place)->kind != PINNED_MEMORY) continue;
            counters.host_frees++;
            give_back(place);
            answer = SUCCESS;
            break;
        }
    }
    unlock();
    return answer;
}

API Result cuMemHostGetDevicePointer_v2(Pointer *device, void *host, unsigned flags) {
    ENTER_CONTEXT("cuMemHostGetDevicePointer");
    lock();
    Region *region = region_on_host(host, 1);
    bool good = region && region->device && !flags;
    if (good) *device = region->device + ((uintptr_t)host - region->host);
    unlock();
    return good ? SUCCESS : INVALID_VALUE;
}

API Result cuMemHostGetFlags(unsigned *flags, void *host) {
    ENTER_CONTEXT("cuMemHostGetFlags");
    lock();
    Region *region = region_on_host(host, 1);
    if (region) *flags = region->flags;
    unlock();
    return region ? SUCCESS : INVALID_VALUE;
}

API Result cuMemGetAddressRange_v2(Pointer *base, size_t *nbytes, Pointer pointer) {
    ENTER_CONTEXT("cuMemGetAddressRange");
    lock();
    Region *region = region_on_device(pointer, 1);
    if (region && base) *base = region->device;
    if (region && nbytes) *nbytes = region->nbytes;
    unlock();
    return region ? SUCCESS : NOT_FOUND;
}

/* Source: cuda.h, enum CUpointer_attribute and CUmemorytype. */
API Result cuPointerGetAttribute(void *out, int attribute, Pointer pointer) {
    ENTER_CONTEXT("cuPointerGetAttribute");
    lock();
    Region *region = region_on_device(pointer, 1);
    if (!region) region = region_on_host((void *)(uintptr_t)pointer, 1);
    Result answer = region ? SUCCESS : INVALID_VALUE;
    if (region) {
        switch (attribute) {
        case 2: *(unsigned *)out = region->kind == PINNED_MEMORY ? 1 : 2; break; /* MEMORY_TYPE */
        case 3: *(Pointer *)out = region->device; break;                         /* DEVICE_POINTER */
        case 4: *(void **)out = (void *)region->host; break;                     /* HOST_POINTER */
        case 8: *(unsigned *)out = region->kind == MANAGED_MEMORY; break;        /* IS_MANAGED */
        case 9: *(int *)out = 0; break;                                          /* DEVICE_ORDINAL */
        default: answer = NOT_SUPPORTED;
        }
    }
    unlock();
    return answer;
}
