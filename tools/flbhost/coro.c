// Runs a function on a small stack of its own.

//go:build ignore

#define _GNU_SOURCE
#include "coro.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct coro {
    ucontext_t caller, callee;
    void (*fn)(void *);
    void *arg;
};

/* makecontext passes only ints, so the callee finds its work here. */
static _Thread_local struct coro *starting;

static void entry(void)
{
    struct coro *c = starting;

    c->fn(c->arg);
    swapcontext(&c->callee, &c->caller); /* never comes back */
}

/* A thread keeps its stack for the next flush: making one costs more than a small flush. */
struct stack {
    char *base;
    size_t size;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void free_stack(void *p)
{
    struct stack *s = p;

    munmap(s->base, s->size);
    free(s);
}

static void make_key(void)
{
    pthread_key_create(&key, free_stack);
}

static struct stack *thread_stack(size_t page, size_t size)
{
    struct stack *s;

    pthread_once(&once, make_key);
    s = pthread_getspecific(key);
    if (s != NULL) {
        return s;
    }
    s = malloc(sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->size = page + size;
    s->base = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (s->base == MAP_FAILED) {
        free(s);
        return NULL;
    }
    mprotect(s->base, page, PROT_NONE); /* an overflow ends the process instead of another object */
    pthread_setspecific(key, s);
    return s;
}

int coro_run(size_t stack, void (*fn)(void *), void *arg)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (stack + page - 1) / page * page;
    struct stack *s = thread_stack(page, size);
    struct coro c = {.fn = fn, .arg = arg};

    if (s == NULL) {
        return -1;
    }
    getcontext(&c.callee);
    c.callee.uc_stack.ss_sp = s->base + page;
    c.callee.uc_stack.ss_size = size;
    c.callee.uc_link = NULL;
    makecontext(&c.callee, entry, 0);
    starting = &c;
    swapcontext(&c.caller, &c.callee);
    return 0;
}
