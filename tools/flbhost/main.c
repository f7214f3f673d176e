// The host's life: load, start, signals, reload, end.

//go:build ignore

#define _GNU_SOURCE
#include "barepost.h"
#include "chunks.h"
#include "daemon.h"
#include "engine.h"
#include "inputs.h"
#include "options.h"
#include "proxy.h"
#include "report.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sem_t wake;
static volatile sig_atomic_t terminated, hung_up;

static void on_signal(int sig)
{
    if (sig == SIGHUP) {
        hung_up = 1;
    } else {
        terminated = 1;
    }
    sem_post(&wake);
}

static void catch_signals(void)
{
    /* A Go library runs its threads on small stacks of their own: SA_ONSTACK keeps off them. */
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};

    sigemptyset(&sa.sa_mask);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void sleep_until_woken(void)
{
    while (sem_wait(&wake) != 0) {
        /* interrupted */
    }
}

/* Starts an engine and waits for its instances. NULL when one did not start. */
static struct engine *start(struct work *w, struct proxy *p)
{
    struct engine *e = engine_start(w, p);

    while (engine_state(e) == ENGINE_STARTING) {
        sleep_until_woken();
    }
    if (w->options->daemon) {
        report_line("daemon init %d", engine_init_answer(e));
        daemon_report_writes();
    }
    if (engine_state(e) == ENGINE_FAILED) {
        engine_join(e);
        return NULL;
    }
    return e;
}

/* The new registration comes before the old instances exit, as in Fluent Bit. Returns the new
   engine, or NULL when it did not start. */
static struct engine *reload(struct work *w, struct engine *e, struct proxy **p)
{
    struct proxy *next = proxy_load(w->options, 1);

    if (next == NULL) {
        die("reload: the plugin did not load again");
    }
    report_detail("reload");
    engine_stop(e, 1);
    engine_join(e);
    proxy_unregister(*p);
    *p = next;
    return start(w, next);
}

/* Returns the exit status. */
static int run(struct work *w, struct proxy **p)
{
    struct engine *e = start(w, *p);

    while (e != NULL) {
        enum engine_state s = engine_state(e);

        if (s == ENGINE_DONE) {
            engine_join(e);
            return 0;
        }
        if (terminated) {
            engine_stop(e, 0);
        } else if (hung_up || s == ENGINE_WANTS_RELOAD) {
            hung_up = 0;
            e = reload(w, e, p);
            continue;
        }
        sleep_until_woken();
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct options o;
    struct work w = {.options = &o, .wake = &wake};
    struct proxy *p;
    long left;
    int status = options_parse(&o, argc, argv);

    if (status != 0) {
        return status - 1;
    }
    sem_init(&wake, 0, 0);
    srandom((unsigned)(time(NULL) ^ getpid()));
    report_open(&o);
    barepost_open(&o);
    catch_signals();
    p = proxy_load(&o, 0);
    if (p == NULL) {
        return 1;
    }
    if (o.daemon) {
        daemon_start(o.status_file);
    }
    w.reload_after = o.reload_after;
    w.store = store_open(o.storage);
    w.inputs = inputs_open(&o, w.store);
    report_rss();
    status = run(&w, &p);
    proxy_unregister(p);
    report_rss();
    left = store_count_left(w.store) + w.nchunks;
    while (w.first != NULL) {
        struct chunk *c = w.first;

        w.first = c->next;
        chunk_free(c);
    }
    inputs_close(w.inputs);
    store_close(w.store);
    if (o.daemon) {
        daemon_report_writes();
    }
    report_summary(left);
    if (o.daemon) {
        report_line("daemon exit %d", status);
    }
    options_free(&o);
    return status;
}
