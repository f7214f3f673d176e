// A worker thread: one queue, run strictly one after another.
#ifndef FLBHOST_WORKER_H
#define FLBHOST_WORKER_H

struct worker;

/* Starts a thread of that name (cut to 15 characters) that calls run(item) for each item pushed. */
struct worker *worker_start(const char *name, void (*run)(void *));
/* Does not block. Not after worker_stop. */
void worker_push(struct worker *w, void *item);
/* Runs what is queued to its end, then ends the thread and frees w. Blocks as long as that takes. */
void worker_stop(struct worker *w);

#endif
