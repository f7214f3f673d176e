// A call on a small stack of its own, as Fluent Bit's coroutines give a flush.
#ifndef FLBHOST_CORO_H
#define FLBHOST_CORO_H

#include <stddef.h>

/* Runs fn(arg) on a stack of `stack` bytes (rounded up to pages; the same in every call) with an
   inaccessible page below it, and returns when fn does. Any thread; each has one such stack, so fn
   must not call it again. Returns -1, errno set, when there is no memory. */
int coro_run(size_t stack, void (*fn)(void *), void *arg);

#endif
