// Where the plugin's functions come from: a shared library, or this very program.
#ifndef FLBHOST_SYMBOLS_H
#define FLBHOST_SYMBOLS_H

/* Opens the library. NULL after printing why. A static build ignores the path. */
void *symbols_open(const char *path);
/* NULL when the plugin does not have it. */
void *symbols_find(void *handle, const char *name);
void symbols_close(void *handle);

#endif
