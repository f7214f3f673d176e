// The engine's loop: gives chunks to instances, handles their answers, retries, and ends in order.

//go:build ignore

#define _GNU_SOURCE
#include "engine.h"

#include "instances.h"
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

struct engine {
    struct instance_host host; /* first: answered() gets its address */
    struct work *work;
    struct proxy *proxy;
    pthread_t thread;
    atomic_int state;
    int init_answer;
    struct instance *instances;

    pthread_mutex_t lock; /* guards answers, stop, hot_reloading */
    pthread_cond_t changed;
    struct queue answers;
    int stop, hot_reloading;

    /* The rest belongs to the engine's thread. */
    struct queue waits; /* retries that are not due */
    int stopping;
    int64_t deadline;
    int64_t next_chunk; /* when --interval or --rate allow it */
    int exhausted;
    int64_t idle_since; /* 0: something is unfinished */
};

static int64_t ns(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

static void answered(struct instance_host *h, struct task *t)
{
    struct engine *e = (struct engine *)h;

    pthread_mutex_lock(&e->lock);
    queue_push(&e->answers, t);
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void unlink_chunk(struct work *w, struct chunk *c)
{
    *(c->prev == NULL ? &w->first : &c->prev->next) = c->next;
    *(c->next == NULL ? &w->last : &c->next->prev) = c->prev;
    w->nchunks--;
}

static void finish(struct work *w, struct chunk *c)
{
    store_remove(w->store, c);
    unlink_chunk(w, c);
    chunk_free(c);
}

/* One task for each instance that matches. A chunk that nobody wants is dropped, as Fluent Bit does. */
static void route(struct engine *e, struct chunk *c)
{
    int n = e->work->options->noutputs;

    /* Counted before the first is given away. */
    for (int i = 0; i < n; i++) {
        c->routes += instance_wants(&e->instances[i], c->tag);
    }
    if (c->routes == 0) {
        finish(e->work, c);
        return;
    }
    for (int i = 0; i < n; i++) {
        struct task *t;

        if (!instance_wants(&e->instances[i], c->tag)) {
            continue;
        }
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
            die("task: %s", strerror(ENOMEM));
        }
        t->chunk = c;
        t->instance = &e->instances[i];
        instance_enqueue(t);
    }
}

/* Fluent Bit waits a random time between base and base times 2^tries (cap at most) and a second more;
   once stopping, only that second. A base below a second stands for the second, too. */
static int64_t backoff(const struct engine *e, int tries)
{
    const struct options *o = e->work->options;
    double second = o->retry_base < 1 ? o->retry_base : 1;
    double most = o->retry_base * (double)(1ULL << (tries < 40 ? tries : 40));
    double wait = o->retry_base;

    if (most > o->retry_cap) {
        most = o->retry_cap;
    }
    if (e->stopping) {
        return ns(second);
    }
    if (most > wait) {
        wait += (most - wait) * ((double)random() / RAND_MAX);
    }
    return ns(wait + second);
}

static void handle(struct engine *e, struct task *t)
{
    struct instance *ins = t->instance;
    struct chunk *c = t->chunk;
    struct work *w = e->work;

    c->in_flight--;
    if (ins->synchronous) {
        ins->busy = 0;
        instance_flush_next(ins);
    }
    if (report_answer(t->answer) >= w->reload_after && w->reload_after > 0 && !e->stopping) {
        w->reload_after = 0;
        atomic_store(&e->state, ENGINE_WANTS_RELOAD);
        sem_post(w->wake);
    }
    if (t->answer == FLB_RETRY && !w->options->drop_retries) {
        int64_t wait = backoff(e, ++t->tries);

        if (c->in_flight == 0) {
            chunk_move(c);
        }
        t->due = now_ns() + wait;
        queue_push(&e->waits, t);
        report_detail("chunk %llu: retry %d in %.2f s", (unsigned long long)c->id, t->tries,
                      (double)wait / 1e9);
        return;
    }
    free(t);
    if (--c->routes == 0) {
        finish(w, c);
    }
}

static void promote_retries(struct engine *e, int64_t now)
{
    struct queue all = e->waits;
    struct task *t;

    e->waits.head = NULL;
    while ((t = queue_pop(&all)) != NULL) {
        if (t->due <= now) {
            instance_enqueue(t);
        } else {
            queue_push(&e->waits, t);
        }
    }
}

/* Returns whether it took one chunk: first those left by a former run, then the inputs. */
static int take_chunk(struct engine *e, int64_t now)
{
    struct work *w = e->work;
    struct chunk *c;

    if (e->exhausted || w->nchunks >= w->options->queue || now < e->next_chunk) {
        return 0;
    }
    c = store_next_left(w->store);
    if (c == NULL) {
        c = inputs_next(w->inputs);
        if (c == NULL) {
            e->exhausted = 1;
            return 0;
        }
        e->next_chunk = now + ns(w->options->interval);
        if (w->options->rate > 0) {
            e->next_chunk += ns((double)c->records / w->options->rate);
        }
    }
    c->prev = w->last;
    *(w->last == NULL ? &w->first : &w->last->next) = c;
    w->last = c;
    w->nchunks++;
    report_chunk();
    route(e, c);
    return 1;
}

/* Whether the engine should end now. */
static int ended(struct engine *e, int64_t now)
{
    const struct options *o = e->work->options;

    if (e->stopping) {
        return e->work->nchunks == 0 || now >= e->deadline;
    }
    if (!e->exhausted || e->work->nchunks > 0) {
        e->idle_since = 0;
        return 0;
    }
    if (e->idle_since == 0) {
        e->idle_since = now;
    }
    return !o->wait_signal && now >= e->idle_since + ns(o->linger);
}

static int64_t next_due(const struct engine *e)
{
    const struct options *o = e->work->options;
    int64_t due = report_gap_due();

    for (const struct task *t = e->waits.head; t != NULL; t = t->next) {
        due = t->due < due ? t->due : due;
    }
    if (e->stopping) {
        due = e->deadline < due ? e->deadline : due;
    } else if (!e->exhausted && e->work->nchunks < o->queue) {
        due = e->next_chunk < due ? e->next_chunk : due;
    } else if (e->idle_since != 0 && !o->wait_signal) {
        int64_t end = e->idle_since + ns(o->linger);

        due = end < due ? end : due;
    }
    return due;
}

static void wait_for_change(struct engine *e)
{
    int64_t due = next_due(e);
    struct timespec at = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};

    pthread_mutex_lock(&e->lock);
    while (e->answers.head == NULL && (!e->stop || e->stopping) && now_ns() < due) {
        if (due == INT64_MAX) {
            pthread_cond_wait(&e->changed, &e->lock);
        } else {
            pthread_cond_timedwait(&e->changed, &e->lock, &at);
        }
    }
    pthread_mutex_unlock(&e->lock);
}

static void begin_stop(struct engine *e, int64_t now)
{
    e->stopping = 1;
    e->deadline = now + ns(e->work->options->grace);
    for (struct task *t = e->waits.head; t != NULL; t = t->next) {
        t->due = now;
    }
    report_detail("stopping: %ld chunks pending, grace %g s", e->work->nchunks,
                  e->work->options->grace);
}

static void loop(struct engine *e)
{
    report_gap(now_ns(), 1);
    for (;;) {
        struct queue answers;
        struct task *t;
        int64_t now;
        int stop, took;

        pthread_mutex_lock(&e->lock);
        answers = e->answers;
        e->answers.head = NULL;
        stop = e->stop;
        pthread_mutex_unlock(&e->lock);

        now = now_ns();
        report_gap(now, 0);
        if (stop && !e->stopping) {
            begin_stop(e, now);
        }
        while ((t = queue_pop(&answers)) != NULL) {
            handle(e, t);
        }
        if (ended(e, now)) {
            return;
        }
        promote_retries(e, now);
        took = !e->stopping && take_chunk(e, now);
        t = queue_pop(&e->host.self);
        if (t != NULL) {
            task_flush(t);
        } else if (!took && !ended(e, now_ns())) {
            wait_for_change(e);
        }
    }
}

static void become(struct engine *e, enum engine_state s)
{
    atomic_store(&e->state, s);
    sem_post(e->work->wake);
}

static void *engine_main(void *arg)
{
    struct engine *e = arg;
    struct work *w = e->work;
    int n = w->options->noutputs;
    int started, hot_reloading;
    struct chunk *c, *next;

    prctl(PR_SET_NAME, "flb-pipeline");
    started = instances_start(e->instances, &e->host, e->proxy, &e->init_answer);
    if (started < n) {
        instances_end(e->instances, started, 0);
        become(e, ENGINE_FAILED);
        return NULL;
    }
    become(e, ENGINE_RUNNING);
    for (c = w->first; c != NULL; c = next) { /* what the instances before a reload left */
        next = c->next;
        route(e, c);
    }
    loop(e);
    pthread_mutex_lock(&e->lock);
    hot_reloading = e->hot_reloading;
    pthread_mutex_unlock(&e->lock);
    instances_end(e->instances, n, hot_reloading);

    /* Answers given after the loop are read by nobody: those chunks stay unfinished. */
    for (int i = 0; i < n; i++) {
        queue_free(&e->instances[i].pending);
    }
    queue_free(&e->answers);
    queue_free(&e->host.self);
    queue_free(&e->waits);
    for (c = w->first; c != NULL; c = c->next) {
        c->routes = c->in_flight = 0;
        chunk_move(c);
    }
    become(e, ENGINE_DONE);
    return NULL;
}

struct engine *engine_start(struct work *w, struct proxy *p)
{
    struct engine *e = calloc(1, sizeof(*e));
    pthread_condattr_t monotonic;

    if (e == NULL ||
        (e->instances = calloc((size_t)w->options->noutputs, sizeof(*e->instances))) == NULL) {
        die("engine: %s", strerror(ENOMEM));
    }
    e->host.options = w->options;
    e->host.answered = answered;
    e->work = w;
    e->proxy = p;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&e->thread, NULL, engine_main, e) != 0) {
        die("engine: cannot start its thread");
    }
    return e;
}

enum engine_state engine_state(struct engine *e)
{
    return (enum engine_state)atomic_load(&e->state);
}

int engine_init_answer(struct engine *e)
{
    return e->init_answer;
}

void engine_stop(struct engine *e, int hot_reloading)
{
    pthread_mutex_lock(&e->lock);
    if (!e->stop) {
        e->stop = 1;
        e->hot_reloading = hot_reloading;
    }
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void engine_join(struct engine *e)
{
    pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e->instances);
    free(e);
}
