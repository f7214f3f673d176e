// Looks up the plugin's functions, with dlopen or, built with -DFLBHOST_STATIC, among the linked ones.

//go:build ignore

#define _GNU_SOURCE
#include "symbols.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef FLBHOST_STATIC

/* Strong: a weak reference alone does not pull an object out of an archive. */
extern int FLBPluginRegister();
extern int FLBPluginInit();
#define OPTIONAL extern __attribute__((weak)) int
OPTIONAL FLBPluginPreRegister();
OPTIONAL FLBPluginOutputPreRun();
OPTIONAL FLBPluginFlush();
OPTIONAL FLBPluginFlushCtx();
OPTIONAL FLBPluginOutputPreExit();
OPTIONAL FLBPluginExit();
OPTIONAL FLBPluginExitCtx();
OPTIONAL FLBPluginUnregister();

#define ENTRY(f) {#f, (void *)f}

void *symbols_open(const char *path)
{
    static char self;

    (void)path;
    return &self;
}

void *symbols_find(void *handle, const char *name)
{
    const struct { const char *name; void *address; } table[] = {
        ENTRY(FLBPluginRegister), ENTRY(FLBPluginInit), ENTRY(FLBPluginPreRegister),
        ENTRY(FLBPluginOutputPreRun), ENTRY(FLBPluginFlush), ENTRY(FLBPluginFlushCtx),
        ENTRY(FLBPluginOutputPreExit), ENTRY(FLBPluginExit), ENTRY(FLBPluginExitCtx),
        ENTRY(FLBPluginUnregister),
    };

    (void)handle;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            return table[i].address;
        }
    }
    return NULL;
}

void symbols_close(void *handle)
{
    (void)handle;
}

#else

void *symbols_open(const char *path)
{
    char here[4096];
    void *handle;

    if (strchr(path, '/') == NULL) { /* dlopen would look in the system's folders only */
        snprintf(here, sizeof(here), "./%s", path);
        path = here;
    }
    handle = dlopen(path, RTLD_LAZY);
    if (handle == NULL) {
        fprintf(stderr, "flbhost: cannot load plugin: %s\n", dlerror());
    }
    return handle;
}

void *symbols_find(void *handle, const char *name)
{
    return dlsym(handle, name);
}

void symbols_close(void *handle)
{
    dlclose(handle);
}

#endif
