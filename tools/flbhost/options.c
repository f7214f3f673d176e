// Reads the command line: outputs and inputs in the order in which they are given.

//go:build ignore

#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char usage[] =
    "usage: flbhost [options] PLUGIN.so\n"
    "Loads a Fluent Bit Go output plugin and drives it as Fluent Bit's proxy does.\n"
    "\n"
    "outputs (the first is implied)\n"
    "  --output               start another instance; the next three belong to it\n"
    "  --set KEY=VALUE        a property; keys that Fluent Bit keeps never reach the plugin\n"
    "  --match PATTERN        tags that it gets (*)\n"
    "  --workers N            worker threads, 0: flush on the engine's thread (0)\n"
    "  --ignore-synchronous   several chunks at once even when the plugin asks for one\n"
    "  --hide-ctx             as if FLBPluginFlushCtx and FLBPluginExitCtx were missing\n"
    "  --stack BYTES          stack of one flush (65536)\n"
    "inputs (read one after another)\n"
    "  --tag TAG              of the inputs that follow (kube.audit)\n"
    "  --repeat N             read each input that follows N times (1)\n"
    "  --log FILE             each line as in_tail records it without a parser; a last\n"
    "                         line without newline stays unread\n"
    "  --msgpack FILE         records as they are; what does not decode goes as one piece\n"
    "  --distinct N           write N, N+1, … over the first 8 characters of each record's auditID,\n"
    "                         in hex: events that are read again differ. Each run begins at N\n"
    "  --unique               end each chunk with a record that counts\n"
    "  --chunk-bytes N        a chunk is full at this size (2048000)\n"
    "  --chunk-records N      or at this many records\n"
    "  --interval MS          between two chunks (0)\n"
    "  --rate N               records a second (no limit)\n"
    "  --queue N              unfinished chunks in memory before inputs pause (64)\n"
    "  --storage DIR          chunks are files until they are answered\n"
    "  --position FILE        how far the inputs were read (needs --storage)\n"
    "answers and stopping, times in seconds\n"
    "  --retry-base S         (1) below 1 it also stands for the second that Fluent Bit adds\n"
    "  --retry-cap S          (30)\n"
    "  --drop-retries         a chunk answered RETRY never comes back\n"
    "  --grace S              what SIGTERM and SIGINT give pending chunks (5)\n"
    "  --linger S             stay this long after the last chunk is answered\n"
    "  --wait-signal          stay until a signal\n"
    "  --reload-after N       reload once after N answers (SIGHUP reloads at any time)\n"
    "reports\n"
    "  --gap-output FILE      a time a line from the engine's thread\n"
    "  --gap-interval MS      (100)\n"
    "  --latency FILE         microseconds of each flush, one a line\n"
    "  --post-to ADDR:PORT    after each flush a bare POST to /audit there, whose microseconds\n"
    "                         follow on the line of --latency\n"
    "  --post-body FILE       what that sends\n"
    "  --rss                  memory, threads and files at start and end\n"
    "  --rss-every N          and after every N chunks\n"
    "  --daemon               fork after loading, as Fluent Bit's Daemon On; use absolute paths\n"
    "  --status-file FILE     where a daemon reports\n"
    "  --verbose              a line for each retry and each step of the end\n"
    "  --help\n"
    "Exit status: 0, 1 when an instance does not start or the host itself fails, 2 usage.\n";

enum {
    O_PLUGIN = 256, O_OUTPUT, O_SET, O_MATCH, O_WORKERS, O_IGNORE_SYNC, O_HIDE_CTX, O_STACK,
    O_TAG, O_REPEAT, O_LOG, O_MSGPACK, O_DISTINCT, O_UNIQUE, O_CHUNK_BYTES, O_CHUNK_RECORDS,
    O_INTERVAL, O_RATE, O_QUEUE, O_STORAGE, O_POSITION, O_RETRY_BASE, O_RETRY_CAP, O_DROP_RETRIES, O_GRACE,
    O_LINGER, O_WAIT_SIGNAL, O_RELOAD_AFTER, O_GAP_OUTPUT, O_GAP_INTERVAL, O_LATENCY, O_POST_TO,
    O_POST_BODY, O_RSS, O_RSS_EVERY, O_DAEMON, O_STATUS_FILE, O_VERBOSE, O_HELP
};

static const struct option longopts[] = {
    {"plugin", required_argument, NULL, O_PLUGIN},
    {"output", no_argument, NULL, O_OUTPUT},
    {"set", required_argument, NULL, O_SET},
    {"match", required_argument, NULL, O_MATCH},
    {"workers", required_argument, NULL, O_WORKERS},
    {"ignore-synchronous", no_argument, NULL, O_IGNORE_SYNC},
    {"hide-ctx", no_argument, NULL, O_HIDE_CTX},
    {"stack", required_argument, NULL, O_STACK},
    {"tag", required_argument, NULL, O_TAG},
    {"repeat", required_argument, NULL, O_REPEAT},
    {"log", required_argument, NULL, O_LOG},
    {"msgpack", required_argument, NULL, O_MSGPACK},
    {"distinct", required_argument, NULL, O_DISTINCT},
    {"unique", no_argument, NULL, O_UNIQUE},
    {"chunk-bytes", required_argument, NULL, O_CHUNK_BYTES},
    {"chunk-records", required_argument, NULL, O_CHUNK_RECORDS},
    {"interval", required_argument, NULL, O_INTERVAL},
    {"rate", required_argument, NULL, O_RATE},
    {"queue", required_argument, NULL, O_QUEUE},
    {"storage", required_argument, NULL, O_STORAGE},
    {"position", required_argument, NULL, O_POSITION},
    {"retry-base", required_argument, NULL, O_RETRY_BASE},
    {"retry-cap", required_argument, NULL, O_RETRY_CAP},
    {"drop-retries", no_argument, NULL, O_DROP_RETRIES},
    {"grace", required_argument, NULL, O_GRACE},
    {"linger", required_argument, NULL, O_LINGER},
    {"wait-signal", no_argument, NULL, O_WAIT_SIGNAL},
    {"reload-after", required_argument, NULL, O_RELOAD_AFTER},
    {"gap-output", required_argument, NULL, O_GAP_OUTPUT},
    {"gap-interval", required_argument, NULL, O_GAP_INTERVAL},
    {"latency", required_argument, NULL, O_LATENCY},
    {"post-to", required_argument, NULL, O_POST_TO},
    {"post-body", required_argument, NULL, O_POST_BODY},
    {"rss", no_argument, NULL, O_RSS},
    {"rss-every", required_argument, NULL, O_RSS_EVERY},
    {"daemon", no_argument, NULL, O_DAEMON},
    {"status-file", required_argument, NULL, O_STATUS_FILE},
    {"verbose", no_argument, NULL, O_VERBOSE},
    {"help", no_argument, NULL, O_HELP},
    {NULL, 0, NULL, 0},
};

static int bad; /* options_parse runs once, before any thread */

static double number(const char *name, const char *text, double least)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !isfinite(v) || v < least || v > 1e15) {
        fprintf(stderr, "flbhost: --%s %s: want a number, at least %g\n", name, text, least);
        bad = 1;
        return least;
    }
    return v;
}

static long whole(const char *name, const char *text, long least)
{
    double v = number(name, text, (double)least);

    if (v != (double)(long)v) {
        fprintf(stderr, "flbhost: --%s %s: want a whole number\n", name, text);
        bad = 1;
    }
    return (long)v;
}

static void *grow(void *list, int n, size_t size)
{
    list = realloc(list, (size_t)(n + 1) * size);
    if (list == NULL) {
        perror("flbhost: realloc");
        exit(1);
    }
    memset((char *)list + (size_t)n * size, 0, size);
    return list;
}

static struct output_options *add_output(struct options *o)
{
    o->outputs = grow(o->outputs, o->noutputs, sizeof(*o->outputs));
    o->outputs[o->noutputs].match = "*";
    return &o->outputs[o->noutputs++];
}

static struct output_options *last_output(struct options *o)
{
    return o->noutputs == 0 ? add_output(o) : &o->outputs[o->noutputs - 1];
}

/* Keys that Fluent Bit takes for itself (flb_output_set_property): the plugin never sees them. */
static int kept_by_fluent_bit(const char *key)
{
    static const char *const names[] = {"match", "match_regex", "alias", "log_level",
        "log_suppress_interval", "host", "port", "ipv6", "retry_limit", "workers", "tls",
        "storage.total_limit_size"};
    static const char *const prefixes[] = {"tls.", "net.", "oauth2", "_debug.http."};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(key, names[i]) == 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncasecmp(key, prefixes[i], strlen(prefixes[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

static int is_true(const char *v)
{
    return strcasecmp(v, "on") == 0 || strcasecmp(v, "true") == 0 || strcasecmp(v, "yes") == 0;
}

static void set_property(struct output_options *out, char *arg)
{
    char *eq = strchr(arg, '=');

    if (eq == NULL || eq == arg) {
        fprintf(stderr, "flbhost: --set %s: want KEY=VALUE\n", arg);
        bad = 1;
        return;
    }
    *eq = '\0';
    if (strcasecmp(arg, "tls") == 0 && is_true(eq + 1)) {
        fprintf(stderr, "flbhost: --set tls=%s: a Go plugin does not support TLS\n", eq + 1);
        bad = 1;
    } else if (strcasecmp(arg, "workers") == 0) {
        out->workers = (int)whole("set workers", eq + 1, 0);
    } else if (strcasecmp(arg, "match") == 0) {
        out->match = eq + 1;
    }
    if (kept_by_fluent_bit(arg)) {
        return;
    }
    out->props = grow(out->props, out->nprops, sizeof(*out->props));
    out->props[out->nprops].key = arg;
    out->props[out->nprops].value = eq[1] == '\0' ? NULL : eq + 1;
    out->nprops++;
}

static void check(struct options *o)
{
    if (o->plugin == NULL) {
#ifndef FLBHOST_STATIC
        fprintf(stderr, "flbhost: no plugin given; try --help\n");
        bad = 1;
#endif
    }
    if (o->position != NULL && o->storage == NULL) {
        fprintf(stderr, "flbhost: --position %s: needs --storage, or a stop would lose the chunks "
                        "in memory\n", o->position);
        bad = 1;
    }
    if ((o->post_to == NULL) != (o->post_body == NULL)) {
        fprintf(stderr, "flbhost: --post-to and --post-body belong together\n");
        bad = 1;
    }
    if (o->daemon && o->status_file == NULL) {
        fprintf(stderr, "flbhost: --daemon: needs --status-file, its standard error is closed\n");
        bad = 1;
    }
}

int options_parse(struct options *o, int argc, char **argv)
{
    const char *tag = "kube.audit";
    long repeat = 1;
    int c;

    memset(o, 0, sizeof(*o));
    o->chunk_bytes = 2048000; /* FLB_INPUT_CHUNK_FS_MAX_SIZE */
    o->queue = 64;
    o->distinct = -1;
    o->retry_base = 1;
    o->retry_cap = 30;
    o->grace = 5;
    o->stack = 64 * 1024; /* FLB_CORO_STACK_SIZE_MIN_BYTE */
    o->gap_interval = 0.1;

    while ((c = getopt_long(argc, argv, "h", longopts, NULL)) != -1) {
        switch (c) {
        case O_PLUGIN: o->plugin = optarg; break;
        case O_OUTPUT: add_output(o); break;
        case O_SET: set_property(last_output(o), optarg); break;
        case O_MATCH: last_output(o)->match = optarg; break;
        case O_WORKERS: last_output(o)->workers = (int)whole("workers", optarg, 0); break;
        case O_IGNORE_SYNC: o->ignore_synchronous = 1; break;
        case O_HIDE_CTX: o->hide_ctx = 1; break;
        case O_STACK: o->stack = (size_t)whole("stack", optarg, 4096); break;
        case O_TAG: tag = optarg; break;
        case O_REPEAT: repeat = whole("repeat", optarg, 1); break;
        case O_LOG:
        case O_MSGPACK:
            o->inputs = grow(o->inputs, o->ninputs, sizeof(*o->inputs));
            o->inputs[o->ninputs++] = (struct input_options){
                c == O_LOG ? INPUT_LOG : INPUT_MSGPACK, optarg, tag, repeat};
            break;
        case O_DISTINCT: o->distinct = whole("distinct", optarg, 0); break;
        case O_UNIQUE: o->unique = 1; break;
        case O_CHUNK_BYTES: o->chunk_bytes = (size_t)whole("chunk-bytes", optarg, 1); break;
        case O_CHUNK_RECORDS: o->chunk_records = whole("chunk-records", optarg, 1); break;
        case O_INTERVAL: o->interval = number("interval", optarg, 0) / 1000; break;
        case O_RATE: o->rate = number("rate", optarg, 0.001); break;
        case O_QUEUE: o->queue = (int)whole("queue", optarg, 1); break;
        case O_STORAGE: o->storage = optarg; break;
        case O_POSITION: o->position = optarg; break;
        case O_RETRY_BASE: o->retry_base = number("retry-base", optarg, 0); break;
        case O_RETRY_CAP: o->retry_cap = number("retry-cap", optarg, 0); break;
        case O_DROP_RETRIES: o->drop_retries = 1; break;
        case O_GRACE: o->grace = number("grace", optarg, 0); break;
        case O_LINGER: o->linger = number("linger", optarg, 0); break;
        case O_WAIT_SIGNAL: o->wait_signal = 1; break;
        case O_RELOAD_AFTER: o->reload_after = whole("reload-after", optarg, 1); break;
        case O_GAP_OUTPUT: o->gap_output = optarg; break;
        case O_GAP_INTERVAL: o->gap_interval = number("gap-interval", optarg, 1) / 1000; break;
        case O_LATENCY: o->latency = optarg; break;
        case O_POST_TO: o->post_to = optarg; break;
        case O_POST_BODY: o->post_body = optarg; break;
        case O_RSS: o->rss = 1; break;
        case O_RSS_EVERY: o->rss = 1; o->rss_every = whole("rss-every", optarg, 1); break;
        case O_DAEMON: o->daemon = 1; break;
        case O_STATUS_FILE: o->status_file = optarg; break;
        case O_VERBOSE: o->verbose = 1; break;
        case 'h':
        case O_HELP: fputs(usage, stdout); return 1;
        default: fputs("flbhost: try --help\n", stderr); return 3;
        }
    }
    if (optind < argc && o->plugin == NULL) {
        o->plugin = argv[optind++];
    }
    if (optind < argc) {
        fprintf(stderr, "flbhost: %s: one argument too many\n", argv[optind]);
        bad = 1;
    }
    last_output(o);
    check(o);
    return bad ? 3 : 0;
}

void options_free(struct options *o)
{
    for (int i = 0; i < o->noutputs; i++) {
        free(o->outputs[i].props);
    }
    free(o->outputs);
    free(o->inputs);
}
