// Calls the plugin for each instance, on the engine's thread or on the instance's workers.

//go:build ignore

#define _GNU_SOURCE
#include "instances.h"

#include "barepost.h"
#include "coro.h"
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void queue_push(struct queue *q, struct task *t)
{
    t->next = NULL;
    if (q->head == NULL) {
        q->head = t;
    } else {
        q->tail->next = t;
    }
    q->tail = t;
}

struct task *queue_pop(struct queue *q)
{
    struct task *t = q->head;

    if (t != NULL) {
        q->head = t->next;
    }
    return t;
}

void queue_free(struct queue *q)
{
    struct task *t;

    while ((t = queue_pop(q)) != NULL) {
        free(t);
    }
}

/* `*` stands for any run of characters. */
static int matches(const char *pattern, const char *tag)
{
    const char *star = NULL, *from = NULL;

    while (*tag != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            from = tag;
        } else if (*pattern == *tag) {
            pattern++;
            tag++;
        } else if (star != NULL) {
            pattern = star;
            tag = ++from;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static void on_small_stack(void *arg)
{
    struct task *t = arg;

    t->answer = proxy_flush(&t->instance->proxy, t->chunk->data, t->chunk->size, t->chunk->tag);
}

void task_flush(struct task *t)
{
    struct instance_host *h = t->instance->host;
    int64_t start = now_ns(), took;

    if (coro_run(h->options->stack, on_small_stack, t) != 0) {
        die("stack of %zu bytes: %s", h->options->stack, strerror(errno));
    }
    took = now_ns() - start;
    report_flush(took, barepost());
    h->answered(h, t);
}

static void flush_on_worker(void *arg)
{
    task_flush(arg);
}

static void dispatch(struct task *t)
{
    struct instance *ins = t->instance;

    t->chunk->in_flight++;
    if (ins->nworkers == 0) {
        queue_push(&ins->host->self, t);
        return;
    }
    worker_push(ins->workers[ins->next_worker], t);
    ins->next_worker = (ins->next_worker + 1) % ins->nworkers;
}

void instance_flush_next(struct instance *ins)
{
    struct task *t = ins->busy ? NULL : queue_pop(&ins->pending);

    if (t != NULL) {
        ins->busy = 1;
        dispatch(t);
    }
}

void instance_enqueue(struct task *t)
{
    if (!t->instance->synchronous) {
        dispatch(t);
        return;
    }
    queue_push(&t->instance->pending, t);
    instance_flush_next(t->instance);
}

int instance_wants(const struct instance *ins, const char *tag)
{
    return matches(ins->match, tag);
}

static int start_workers(struct instance *ins, int number)
{
    int n = ins->proxy.options->workers;
    char name[64];

    ins->workers = calloc((size_t)n + 1, sizeof(*ins->workers));
    for (int i = 0; ins->workers != NULL && i < n; i++) {
        snprintf(name, sizeof(name), "flb-out-%s.%d-w%d", ins->proxy.context.proxy->def.name,
                 number, i);
        ins->workers[i] = worker_start(name, flush_on_worker);
        if (ins->workers[i] == NULL) {
            break;
        }
        ins->nworkers++;
    }
    return ins->nworkers == n ? 0 : -1;
}

/* As Fluent Bit ends an output: its workers first, which run what they have queued, then its exit. */
void instances_end(struct instance *list, int n, int hot_reloading)
{
    for (int i = 0; i < n; i++) {
        struct instance *ins = &list[i];
        int64_t start = now_ns(), joined;

        for (int j = 0; j < ins->nworkers; j++) {
            worker_stop(ins->workers[j]);
        }
        free(ins->workers);
        joined = now_ns();
        proxy_exit(&ins->proxy, hot_reloading);
        report_exit(now_ns() - joined);
        report_detail("instance %d: workers joined in %.3f s, exit took %.3f s", i,
                      (double)(joined - start) / 1e9, (double)(now_ns() - joined) / 1e9);
    }
}

int instances_start(struct instance *list, struct instance_host *h, struct proxy *p, int *answer)
{
    const struct options *o = h->options;
    int i;

    for (i = 0; i < o->noutputs; i++) {
        struct instance *ins = &list[i];

        ins->host = h;
        ins->match = o->outputs[i].match;
        ins->synchronous = (p->def.flags & FLB_OUTPUT_SYNCHRONOUS) != 0 &&
                           !o->ignore_synchronous;
        *answer = proxy_init(p, &ins->proxy, &o->outputs[i]);
        if (*answer <= 0) {
            report_line("instance %d of plugin '%s' did not start: FLBPluginInit answered %d", i,
                        p->def.name, *answer);
            return i;
        }
        if (start_workers(ins, i) != 0) {
            die("instance %d: cannot start %d workers", i, o->outputs[i].workers);
        }
    }
    for (int j = 0; j < i; j++) {
        proxy_pre_run(&list[j].proxy);
    }
    return i;
}
