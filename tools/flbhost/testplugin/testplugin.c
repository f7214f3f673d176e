// A scripted output plugin for the host's own tests: it records each callback and answers as told.
//
// Environment: TESTPLUGIN_RECORD, a file that gets a line for each callback; TESTPLUGIN_FLAGS, the flags
// given at registration.
// Properties: answers (retry,ok,error: one for each flush, the last again and again), delay_ms, init
// (FLBPluginInit's answer), print (Init writes to descriptors 1 and 2), stack_use (bytes), misuse
// (stale: reads the first chunk again during the second flush; overread: reads one byte too many).

//go:build ignore

#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct def {
    int type, proxy, flags;
    char *name, *description;
    int event_type;
    void *config_map;
};

struct init {
    char *name;
    struct { const char *(*output_get_property)(const char *, void *); } *api;
    void *o_ins;
    struct { void *remote_context; } *context;
};

struct instance {
    char id[32];
    char answers[128];
    int flushes, delay_ms, stack_use;
    char misuse[32];
    const unsigned char *kept;
};

static struct instance *latest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((format(printf, 1, 2))) static void record(const char *format, ...)
{
    const char *path = getenv("TESTPLUGIN_RECORD");
    char line[1024], thread[17] = "";
    va_list ap;
    int n, fd;

    if (path == NULL || (fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600)) < 0) {
        return;
    }
    prctl(PR_GET_NAME, thread);
    va_start(ap, format);
    n = vsnprintf(line, 900, format, ap);
    va_end(ap);
    n += snprintf(line + n, 100, " on %s\n", thread);
    if (write(fd, line, (size_t)n) != n) {
        abort();
    }
    close(fd);
}

int FLBPluginPreRegister(int hot_reloading)
{
    record("preregister %d", hot_reloading);
    return 0;
}

int FLBPluginRegister(struct def *d)
{
    const char *flags = getenv("TESTPLUGIN_FLAGS");

    d->type = 2;
    d->proxy = 11;
    d->flags = flags == NULL ? 0 : atoi(flags);
    d->name = "k8saudit";
    d->description = "scripted";
    record("register");
    return 0;
}

static const char *get(struct init *p, const char *key, const char *absent)
{
    const char *v = p->api->output_get_property(key, p->o_ins);

    return v == NULL ? absent : v;
}

int FLBPluginInit(struct init *p)
{
    struct instance *ins = calloc(1, sizeof(*ins));
    int answer = atoi(get(p, "INIT", "1"));

    snprintf(ins->id, sizeof(ins->id), "%s", get(p, "id", "-"));
    snprintf(ins->answers, sizeof(ins->answers), "%s", get(p, "answers", "ok"));
    snprintf(ins->misuse, sizeof(ins->misuse), "%s", get(p, "misuse", ""));
    ins->delay_ms = atoi(get(p, "delay_ms", "0"));
    ins->stack_use = atoi(get(p, "stack_use", "0"));
    if (strcmp(get(p, "print", ""), "on") == 0) {
        if (write(1, "out", 3) != 3 || write(2, "error", 5) != 5) {
            abort();
        }
    }
    record("init %s name=%s Key=%s retry_limit=%s", ins->id, p->name, get(p, "Key", "none"),
           get(p, "retry_limit", "none"));
    if (answer <= 0) {
        free(ins);
        return answer;
    }
    p->context->remote_context = ins;
    latest = ins;
    return answer;
}

int FLBPluginOutputPreRun(int hot_reload_enabled)
{
    record("prerun %d", hot_reload_enabled);
    return 0;
}

/* The answer for the n-th flush. */
static int script(const char *answers, int n)
{
    while (n-- > 0 && strchr(answers, ',') != NULL) {
        answers = strchr(answers, ',') + 1;
    }
    return strncmp(answers, "ok", 2) == 0 ? 1 : strncmp(answers, "retry", 5) == 0 ? 2
           : strncmp(answers, "error", 5) == 0 ? 0 : 7;
}

static uint64_t hash(const unsigned char *p, size_t n)
{
    uint64_t h = 14695981039346656037u;

    while (n-- > 0) {
        h = (h ^ *p++) * 1099511628211u;
    }
    return h;
}

static void use_stack(int n)
{
    volatile char *p = alloca((size_t)n);

    for (int i = n - 1; i >= 0; i -= 1024) {
        p[i] = 1;
    }
}

int FLBPluginFlushCtx(struct instance *ins, const unsigned char *data, size_t size, const char *tag)
{
    struct timespec delay = {ins->delay_ms / 1000, ins->delay_ms % 1000 * 1000000L};
    volatile unsigned char seen = 0;
    int n;

    pthread_mutex_lock(&lock);
    n = ins->flushes++;
    pthread_mutex_unlock(&lock);
    record("flush %s %d tag=%s size=%zu hash=%016llx", ins->id, n, tag, size,
           (unsigned long long)hash(data, size));
    if (ins->stack_use > 0) {
        use_stack(ins->stack_use);
    }
    if (strcmp(ins->misuse, "overread") == 0) {
        seen += data[size];
    }
    if (strcmp(ins->misuse, "stale") == 0 && ins->kept != NULL) {
        seen += ins->kept[0];
    }
    ins->kept = ins->kept == NULL ? data : ins->kept;
    nanosleep(&delay, NULL);
    record("answer %s %d %d", ins->id, n, script(ins->answers, n));
    return script(ins->answers, n);
}

int FLBPluginFlush(const unsigned char *data, size_t size, const char *tag)
{
    record("plain flush");
    return FLBPluginFlushCtx(latest, data, size, tag);
}

void FLBPluginOutputPreExit(int hot_reloading)
{
    record("preexit %d", hot_reloading);
}

int FLBPluginExitCtx(struct instance *ins)
{
    record("exit %s", ins->id);
    free(ins);
    return 1;
}

int FLBPluginExit(void)
{
    record("plain exit");
    free(latest);
    return 1;
}

void FLBPluginUnregister(struct def *d)
{
    record("unregister %s", d->name);
}
