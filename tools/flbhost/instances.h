// Instances: each is one [OUTPUT] with its workers, its queue, and its calls into the plugin.
#ifndef FLBHOST_INSTANCES_H
#define FLBHOST_INSTANCES_H

#include "chunks.h"
#include "options.h"
#include "proxy.h"
#include "worker.h"

struct task;

struct queue {
    struct task *head, *tail;
};

void queue_push(struct queue *q, struct task *t);
/* NULL when empty. */
struct task *queue_pop(struct queue *q);
void queue_free(struct queue *q);

/* A chunk for one instance. */
struct task {
    struct task *next;
    struct chunk *chunk;
    struct instance *instance;
    int tries;
    int64_t due;
    int answer;
};

/* What instances need of the engine that runs them. */
struct instance_host {
    const struct options *options;
    struct queue self; /* flushes for the engine's own thread to run */
    /* Takes an answered task. Called from the thread of the flush. */
    void (*answered)(struct instance_host *h, struct task *t);
};

struct instance {
    struct proxy_instance proxy; /* first: the plugin gets its address */
    struct instance_host *host;
    const char *match;
    int synchronous;
    int busy;             /* synchronous: a chunk is with the plugin */
    struct queue pending; /* synchronous: waiting for that */
    struct worker **workers;
    int nworkers, next_worker;
};

/* All on the engine's thread, but for task_flush, which workers call as well. */

/* Starts all instances of the options. Returns how many run; fewer than all when the next one failed,
   whose answer is in *answer. */
int instances_start(struct instance *list, struct instance_host *h, struct proxy *p, int *answer);
/* Ends the first n, one after another. Blocks until their workers have run what they had queued and
   the plugin's exit has returned. */
void instances_end(struct instance *list, int n, int hot_reloading);

int instance_wants(const struct instance *ins, const char *tag);
/* Gives the task to the plugin, at once or when its turn comes. Does not block. */
void instance_enqueue(struct task *t);
/* After an answer: a synchronous instance gets its next chunk. */
void instance_flush_next(struct instance *ins);
/* Runs the flush. Blocks as long as the plugin does. */
void task_flush(struct task *t);

#endif
