/* cuGetProcAddress: cuda-bindings asks by plain name and version for every function of the driver. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "emulator.h"

Result cuInit(unsigned flags);

/* Names whose newest form is not NAME_v2. */
static const struct {
    const char *name;
    int since;
    const char *symbol;
} forms[] = {
    {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
    {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
    {"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
};

static void *find(void *library, const char *name, int version) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(forms[i].name, name) && version >= forms[i].since) return dlsym(library, forms[i].symbol);
    char second[128];
    snprintf(second, sizeof second, "%s_v2", name);
    void *found = dlsym(library, second);
    return found ? found : dlsym(library, name);
}

API Result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    (void)flags;
    static void *library;
    if (!library) {
        Dl_info here;
        dladdr((void *)cuInit, &here);
        library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    *function = find(library, name, version);
    if (status) *status = *function ? 0 : 1; /* SUCCESS, SYMBOL_NOT_FOUND */
    return *function || status ? SUCCESS : NOT_FOUND;
}

API Result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
