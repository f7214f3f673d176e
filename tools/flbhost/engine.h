// The engine: one run of the instances, from their Init to their Exit, on a thread of its own.
#ifndef FLBHOST_ENGINE_H
#define FLBHOST_ENGINE_H

#include "chunks.h"
#include "inputs.h"
#include "options.h"
#include "proxy.h"

#include <semaphore.h>

/* What outlives an engine when the plugin is reloaded. */
struct work {
    const struct options *options;
    struct store *store;
    struct inputs *inputs;
    struct chunk *first, *last; /* unfinished */
    long nchunks;
    long reload_after;          /* 0 once it has happened */
    sem_t *wake;                /* posted when an engine wants the process's thread */
};

struct engine;

enum engine_state {
    ENGINE_STARTING,
    ENGINE_RUNNING,
    ENGINE_WANTS_RELOAD, /* still running */
    ENGINE_FAILED,       /* an instance did not start; the others have exited */
    ENGINE_DONE          /* all is flushed, or stopped: the instances have exited */
};

/* Starts the thread `flb-pipeline`, on which the instances start. Does not wait for them. */
struct engine *engine_start(struct work *w, struct proxy *p);
enum engine_state engine_state(struct engine *e);
/* The answer of the last FLBPluginInit; after ENGINE_STARTING. */
int engine_init_answer(struct engine *e);
/* Asks for the end: inputs stop, pending chunks get --grace. Does not wait. */
void engine_stop(struct engine *e, int hot_reloading);
/* Waits for the end of the thread and frees e. */
void engine_join(struct engine *e);

#endif
