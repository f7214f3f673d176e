// Loads and calls the plugin in the order and with the structures of Fluent Bit's proxy.

//go:build ignore

#define _GNU_SOURCE
#include "proxy.h"

#include "symbols.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Keys compare without case; of a key given twice the first value counts. */
static const char *get_property(const char *key, struct proxy_instance *ins)
{
    const struct output_options *o = ins->options;

    for (int i = 0; i < o->nprops; i++) {
        if (strcasecmp(o->props[i].key, key) == 0) {
            return o->props[i].value;
        }
    }
    return NULL;
}

static void log_print(int type, const char *file, int line, const char *format, ...)
{
    va_list ap;

    (void)type;
    (void)file;
    (void)line;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static int log_check(struct proxy_instance *ins, int level)
{
    (void)ins;
    return level <= 3; /* FLB_LOG_INFO */
}

struct proxy *proxy_load(const struct options *o, int hot_reloading)
{
    struct proxy *p = calloc(1, sizeof(*p));
    int (*pre_register)(int);
    int (*reg)(struct plugin_def *);

    if (p == NULL) {
        perror("flbhost: calloc");
        return NULL;
    }
    p->handle = symbols_open(o->plugin);
    if (p->handle == NULL) {
        free(p);
        return NULL;
    }
    p->api.output_get_property = get_property;
    p->api.log_print = log_print;
    p->api.output_log_check = log_check;

    *(void **)&pre_register = symbols_find(p->handle, "FLBPluginPreRegister");
    *(void **)&reg = symbols_find(p->handle, "FLBPluginRegister");
    if (reg == NULL) {
        fprintf(stderr, "flbhost: plugin has no FLBPluginRegister\n");
        goto fail;
    }
    if ((pre_register != NULL && pre_register(hot_reloading) == -1) || reg(&p->def) == -1) {
        fprintf(stderr, "flbhost: plugin did not register\n");
        goto fail;
    }
    if (p->def.proxy != FLB_PROXY_GOLANG || p->def.type != FLB_PROXY_OUTPUT_PLUGIN ||
        p->def.name == NULL) {
        fprintf(stderr, "flbhost: plugin registered as proxy %d type %d: want a Go output "
                        "(11 and 2) with a name\n", p->def.proxy, p->def.type);
        goto fail;
    }
    *(void **)&p->cb_init = symbols_find(p->handle, "FLBPluginInit");
    *(void **)&p->cb_pre_run = symbols_find(p->handle, "FLBPluginOutputPreRun");
    *(void **)&p->cb_flush = symbols_find(p->handle, "FLBPluginFlush");
    *(void **)&p->cb_pre_exit = symbols_find(p->handle, "FLBPluginOutputPreExit");
    *(void **)&p->cb_exit = symbols_find(p->handle, "FLBPluginExit");
    *(void **)&p->cb_unregister = symbols_find(p->handle, "FLBPluginUnregister");
    if (!o->hide_ctx) {
        *(void **)&p->cb_flush_ctx = symbols_find(p->handle, "FLBPluginFlushCtx");
        *(void **)&p->cb_exit_ctx = symbols_find(p->handle, "FLBPluginExitCtx");
    }
    if (p->cb_init == NULL || (p->cb_flush == NULL && p->cb_flush_ctx == NULL)) {
        fprintf(stderr, "flbhost: plugin lacks FLBPluginInit or a flush function\n");
        goto fail;
    }
    return p;
fail:
    symbols_close(p->handle);
    free(p);
    return NULL;
}

int proxy_init(struct proxy *p, struct proxy_instance *ins, const struct output_options *o)
{
    ins->context.remote_context = NULL;
    ins->context.proxy = p;
    ins->options = o;
    p->init = (struct plugin_init){p->def.name, &p->api, ins, &ins->context};
    return p->cb_init(&p->init);
}

void proxy_pre_run(struct proxy_instance *ins)
{
    if (ins->context.proxy->cb_pre_run != NULL) {
        ins->context.proxy->cb_pre_run(1); /* hot reload is always enabled here */
    }
}

int proxy_flush(struct proxy_instance *ins, const void *data, size_t size, const char *tag)
{
    struct proxy *p = ins->context.proxy;
    char *copy = strdup(tag); /* the plugin must not keep it: freed when it answers */
    int answer;

    if (copy == NULL) {
        return FLB_ERROR;
    }
    if (p->cb_flush_ctx != NULL) {
        answer = p->cb_flush_ctx(ins->context.remote_context, data, size, copy);
    } else {
        answer = p->cb_flush(data, size, copy);
    }
    free(copy);
    return answer == FLB_OK || answer == FLB_RETRY ? answer : FLB_ERROR;
}

void proxy_exit(struct proxy_instance *ins, int hot_reloading)
{
    struct proxy *p = ins->context.proxy;

    if (p->cb_pre_exit != NULL) {
        p->cb_pre_exit(hot_reloading);
    }
    if (p->cb_exit_ctx != NULL) {
        p->cb_exit_ctx(ins->context.remote_context);
    } else if (p->cb_exit != NULL) {
        p->cb_exit();
    }
}

void proxy_unregister(struct proxy *p)
{
    if (p->cb_unregister != NULL) {
        p->cb_unregister(&p->def);
    }
    symbols_close(p->handle);
    free(p);
}
