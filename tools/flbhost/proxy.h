// The plugin as Fluent Bit's proxy sees it: registration, instances, flush, exit.
// Layouts follow include/fluent-bit/flb_plugin_proxy.h, flb_api.h and src/proxy/go/go.h of Fluent Bit 5.1.
#ifndef FLBHOST_PROXY_H
#define FLBHOST_PROXY_H

#include "options.h"

#include <stddef.h>

/* What the plugin answers (flb_output.h). */
enum { FLB_ERROR = 0, FLB_OK = 1, FLB_RETRY = 2 };

enum {
    FLB_PROXY_OUTPUT_PLUGIN = 2,
    FLB_PROXY_GOLANG = 11,
    FLB_OUTPUT_SYNCHRONOUS = 2048 /* one chunk at a time per instance */
};

/* Filled in by FLBPluginRegister. */
struct plugin_def {
    int type;
    int proxy;
    int flags;
    char *name;
    char *description;
    int event_type;
    void *config_map;
};

struct proxy_instance;

struct plugin_api {
    const char *(*output_get_property)(const char *key, struct proxy_instance *ins);
    const char *(*input_get_property)(const char *key, void *ins);
    void *(*output_get_cmt_instance)(struct proxy_instance *ins);
    void *(*input_get_cmt_instance)(void *ins);
    void (*log_print)(int type, const char *file, int line, const char *format, ...);
    int (*input_log_check)(void *ins, int level);
    int (*output_log_check)(struct proxy_instance *ins, int level);
    const char *(*custom_get_property)(const char *key, void *ins);
    int (*custom_log_check)(void *ins, int level);
};

struct proxy;

/* FLBPluginInit stores the instance's own pointer here. */
struct proxy_context {
    void *remote_context;
    struct proxy *proxy;
};

/* One for all instances: what FLBPluginInit is given, with the instance of the moment. */
struct plugin_init {
    char *name;
    struct plugin_api *api;
    struct proxy_instance *o_ins;
    struct proxy_context *context;
};

struct proxy {
    void *handle;
    struct plugin_def def;
    struct plugin_api api;
    struct plugin_init init;
    int (*cb_init)(struct plugin_init *);
    int (*cb_pre_run)(int);
    int (*cb_flush)(const void *, size_t, const char *);
    int (*cb_flush_ctx)(void *, const void *, size_t, char *);
    void (*cb_pre_exit)(int);
    int (*cb_exit)(void);
    int (*cb_exit_ctx)(void *);
    void (*cb_unregister)(struct plugin_def *);
};

struct proxy_instance {
    struct proxy_context context;
    const struct output_options *options;
};

/* Loads the library and registers the plugin, on the process's thread. NULL after saying why. */
struct proxy *proxy_load(const struct options *o, int hot_reloading);

/* The rest runs on the engine's thread, but for proxy_flush (any) and proxy_unregister (the process's). */

/* Returns FLBPluginInit's own answer: 0 and below is failure. */
int proxy_init(struct proxy *p, struct proxy_instance *ins, const struct output_options *o);
void proxy_pre_run(struct proxy_instance *ins);
/* Returns FLB_OK, FLB_RETRY or FLB_ERROR; the latter for any other answer. Blocks as long as the plugin does. */
int proxy_flush(struct proxy_instance *ins, const void *data, size_t size, const char *tag);
void proxy_exit(struct proxy_instance *ins, int hot_reloading);
/* Ends and frees the registration. */
void proxy_unregister(struct proxy *p);

#endif
