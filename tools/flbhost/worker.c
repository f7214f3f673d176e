// Worker threads: each runs its own queue, and at the end what is still in it.

//go:build ignore

#define _GNU_SOURCE
#include "worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct item {
    struct item *next;
    void *value;
};

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct item *head, **tail;
    int stopping;
    void (*run)(void *);
    char name[64];
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    prctl(PR_SET_NAME, w->name);
    for (;;) {
        struct item *it;

        pthread_mutex_lock(&w->lock);
        while (w->head == NULL && !w->stopping) {
            pthread_cond_wait(&w->more, &w->lock);
        }
        it = w->head;
        if (it != NULL && (w->head = it->next) == NULL) {
            w->tail = &w->head;
        }
        pthread_mutex_unlock(&w->lock);
        if (it == NULL) {
            return NULL;
        }
        w->run(it->value);
        free(it);
    }
}

struct worker *worker_start(const char *name, void (*run)(void *))
{
    struct worker *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return NULL;
    }
    snprintf(w->name, sizeof(w->name), "%s", name);
    w->run = run;
    w->tail = &w->head;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
        free(w);
        return NULL;
    }
    return w;
}

void worker_push(struct worker *w, void *item)
{
    struct item *it = malloc(sizeof(*it));

    if (it == NULL) {
        perror("flbhost: malloc");
        exit(1);
    }
    *it = (struct item){NULL, item};
    pthread_mutex_lock(&w->lock);
    *w->tail = it;
    w->tail = &it->next;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

void worker_stop(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stopping = 1;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
