/* A stand-in for libnrt: the same interface, no device. It computes a "model" that the tests can compute too, takes down every
 * call in calls.log beside itself, and writes a line that begins with VIOLATION for every rule of the interface that is broken:
 * order of calls, handles that are not alive, tensors that do not fit, anything that is not given back by nrt_close.
 *
 * stub.conf beside it says what kind of machine it is and what fails:
 *   family 4
 *   cores 24
 *   execute_us 200
 *   fail nrt_execute 6 3 [7]    the third call (from 1) of nrt_execute returns 6; with a fourth number, of rank 7 alone
 *   hang 2                      the second nrt_execute of rank 0 never returns
 *
 * A NEFF is text: "STUBNEFF 1 prefill|decode ROWS LENGTH VOCABULARY", then a line for each tensor: "in|out NAME DTYPE BYTES".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int32_t NRT_STATUS;
enum { SUCCESS = 0, INVALID = 2, RESOURCE = 4, TIMEOUT = 5, NOT_ENOUGH_NC = 9, UNSUPPORTED = 10, UNINITIALIZED = 13, CLOSED = 14 };
enum { MODEL = 0x4d4f4445, TENSOR = 0x54454e53, SET = 0x53455400, DEAD = 0x44454144 };
enum { TENSORS_MAX = 32, RANKS_MAX = 64, ADDED_MAX = 32 };

typedef struct { char name[256]; uint32_t usage; size_t size; uint32_t dtype; uint32_t *shape; uint32_t ndim; } info_t;
typedef struct { uint64_t count; info_t entries[]; } infos_t;
typedef struct { uint32_t kind; int core; size_t size; uint8_t *bytes; int users; } tensor_t;
typedef struct { uint32_t kind; int count; char names[ADDED_MAX][256]; tensor_t *tensors[ADDED_MAX]; } set_t;
typedef struct {
    uint32_t kind; int core; uint32_t rank, ranks; int decode; int rows, length, vocabulary;
    int count; info_t infos[TENSORS_MAX];
} model_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static char folder[4096];
static FILE *log_file;
static int state; /* 0 never, 1 open, 2 closed */
static int models, tensors, sets;
static int family = 4, cores = 24, execute_us;
static struct { char call[64]; int status, nth, rank; int seen; } fails[16];
static int fail_count, hang_at, executed_by_first;
static int arrived, round_number, broken, was_broken;

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log_file, format, arguments);
    va_end(arguments);
    fputc('\n', log_file);
    fflush(log_file);
}

__attribute__((constructor)) static void begin(void) {
    Dl_info here;
    char path[4200], line[256];
    dladdr((void *)begin, &here);
    strncpy(folder, here.dli_fname, sizeof folder - 1);
    *strrchr(folder, '/') = 0;
    snprintf(path, sizeof path, "%s/calls.log", folder);
    log_file = fopen(path, "a");
    snprintf(path, sizeof path, "%s/stub.conf", folder);
    FILE *conf = fopen(path, "r");
    while (conf && fgets(line, sizeof line, conf)) {
        sscanf(line, "family %d", &family);
        sscanf(line, "cores %d", &cores);
        sscanf(line, "execute_us %d", &execute_us);
        sscanf(line, "hang %d", &hang_at);
        if (!strncmp(line, "fail ", 5) && fail_count < 16) {
            fails[fail_count].rank = -1;
            if (sscanf(line, "fail %63s %d %d %d", fails[fail_count].call, &fails[fail_count].status, &fails[fail_count].nth,
                       &fails[fail_count].rank) >= 3)
                fail_count++;
        }
    }
    if (conf) fclose(conf);
}

/* The status that a call has to return by stub.conf; 0 for none. The lock is held. */
static int told(const char *call, int rank) {
    int status = 0;
    for (int i = 0; i < fail_count; i++)
        if (!strcmp(fails[i].call, call) && (fails[i].rank < 0 || fails[i].rank == rank) && ++fails[i].seen == fails[i].nth)
            status = fails[i].status;
    if (status) say("told %s %d", call, status);
    return status;
}

static int open_now(const char *call) {
    if (state == 1) return 1;
    say("VIOLATION %s while the runtime is %s", call, state ? "closed" : "not initialised");
    return 0;
}

static int alive(const char *call, const void *handle, uint32_t kind) {
    if (handle && *(const uint32_t *)handle == kind) return 1;
    say("VIOLATION %s of a handle that is not alive", call);
    return 0;
}

#define ENTER(call) pthread_mutex_lock(&lock); NRT_STATUS status = told(call, -1); (void)status
#define LEAVE(value) do { NRT_STATUS leaving = (value); pthread_mutex_unlock(&lock); return leaving; } while (0)

NRT_STATUS nrt_init(int framework, const char *fw_version, const char *fal_version) {
    ENTER("nrt_init");
    say("nrt_init %d", framework);
    if (status) LEAVE(status);
    if (state == 1) { say("VIOLATION nrt_init twice"); LEAVE(INVALID); }
    if (framework != 1 || !fw_version || !fal_version) say("VIOLATION nrt_init with wrong arguments");
    state = 1;
    arrived = broken = 0;
    LEAVE(SUCCESS);
}

void nrt_close(void) {
    pthread_mutex_lock(&lock);
    say("nrt_close models=%d tensors=%d sets=%d", models, tensors, sets);
    open_now("nrt_close");
    if (models || tensors || sets) say("VIOLATION nrt_close while something is still held");
    state = 2;
    pthread_mutex_unlock(&lock);
}

NRT_STATUS nrt_get_visible_vnc_count(uint32_t *count) {
    ENTER("nrt_get_visible_vnc_count");
    *count = (uint32_t)cores;
    LEAVE(status);
}

typedef struct { uint32_t family, size; char arch_name[16]; char device_revision[8]; } instance_t;
NRT_STATUS nrt_get_instance_info(instance_t *info, size_t size) {
    ENTER("nrt_get_instance_info");
    if (size != sizeof *info) say("VIOLATION nrt_get_instance_info of %zu bytes", size);
    memset(info, 0, sizeof *info);
    info->family = (uint32_t)family;
    LEAVE(status);
}

typedef struct { size_t used, limit; } memory_t;
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t core, memory_t *stats, size_t size, size_t *written) {
    ENTER("nrt_get_vnc_memory_stats");
    if (size != sizeof *stats) say("VIOLATION nrt_get_vnc_memory_stats of %zu bytes", size);
    if ((int)core >= cores) LEAVE(INVALID);
    stats->used = 1000 + core;
    stats->limit = (size_t)16 << 30;
    *written = sizeof *stats;
    LEAVE(status);
}

static uint32_t dtype_of(const char *name) {
    if (!strcmp(name, "int32")) return 8;
    if (!strcmp(name, "int64")) return 12;
    if (!strcmp(name, "int8")) return 2;
    if (!strcmp(name, "bf16")) return 6;
    return 10;
}

static NRT_STATUS load(const char *call, const void *bytes, size_t size, int32_t core, int32_t count, uint32_t rank,
                       uint32_t ranks, model_t **out) {
    pthread_mutex_lock(&lock);
    say("%s core=%d count=%d rank=%u/%u", call, core, count, rank, ranks);
    int status = told(call, (int)rank);
    if (!open_now(call)) LEAVE(UNINITIALIZED);
    if (status) LEAVE(status);
    if (count != -1) say("VIOLATION %s with a core count", call);
    if (core < 0 || core >= cores) LEAVE(NOT_ENOUGH_NC);
    char *text = strndup(bytes, size), *line, *rest = text, phase[16];
    model_t *model = calloc(1, sizeof *model);
    line = strsep(&rest, "\n");
    if (sscanf(line, "STUBNEFF 1 %15s %d %d %d", phase, &model->rows, &model->length, &model->vocabulary) != 4) {
        status = strncmp(text, "STUBNEFF", 8) ? INVALID : UNSUPPORTED;
        free(text);
        free(model);
        LEAVE(status);
    }
    model->kind = MODEL; model->core = core; model->rank = rank; model->ranks = ranks; model->decode = !strcmp(phase, "decode");
    while ((line = strsep(&rest, "\n")) && model->count < TENSORS_MAX) {
        char side[8], dtype[8];
        info_t *info = &model->infos[model->count];
        if (sscanf(line, "%7s %255s %7s %zu", side, info->name, dtype, &info->size) != 4) continue;
        info->usage = strcmp(side, "in") != 0;
        info->dtype = dtype_of(dtype);
        model->count++;
    }
    free(text);
    models++;
    *out = model;
    LEAVE(SUCCESS);
}

NRT_STATUS nrt_load(const void *bytes, size_t size, int32_t core, int32_t count, model_t **out) {
    return load("nrt_load", bytes, size, core, count, 0, 1, out);
}

NRT_STATUS nrt_load_collectives(const void *bytes, size_t size, int32_t core, int32_t count, uint32_t rank, uint32_t ranks,
                                model_t **out) {
    return load("nrt_load_collectives", bytes, size, core, count, rank, ranks, out);
}

NRT_STATUS nrt_unload(model_t *model) {
    ENTER("nrt_unload");
    say("nrt_unload");
    open_now("nrt_unload");
    if (!alive("nrt_unload", model, MODEL)) LEAVE(INVALID);
    model->kind = DEAD; /* kept, so that a second use is seen */
    models--;
    LEAVE(status);
}

NRT_STATUS nrt_get_model_tensor_info(model_t *model, infos_t **out) {
    ENTER("nrt_get_model_tensor_info");
    if (!alive("nrt_get_model_tensor_info", model, MODEL)) LEAVE(INVALID);
    if (status) LEAVE(status);
    infos_t *infos = malloc(sizeof *infos + (size_t)model->count * sizeof(info_t));
    infos->count = (uint64_t)model->count;
    memcpy(infos->entries, model->infos, (size_t)model->count * sizeof(info_t));
    *out = infos;
    LEAVE(SUCCESS);
}

NRT_STATUS nrt_free_model_tensor_info(infos_t *infos) {
    ENTER("nrt_free_model_tensor_info");
    free(infos);
    LEAVE(status);
}

NRT_STATUS nrt_allocate_tensor_set(set_t **out) {
    ENTER("nrt_allocate_tensor_set");
    open_now("nrt_allocate_tensor_set");
    if (status) LEAVE(status);
    *out = calloc(1, sizeof **out);
    (*out)->kind = SET;
    sets++;
    LEAVE(SUCCESS);
}

void nrt_destroy_tensor_set(set_t **set) {
    pthread_mutex_lock(&lock);
    if (alive("nrt_destroy_tensor_set", *set, SET)) {
        for (int i = 0; i < (*set)->count; i++)
            if (alive("nrt_destroy_tensor_set: its tensor", (*set)->tensors[i], TENSOR)) (*set)->tensors[i]->users--;
        (*set)->kind = DEAD;
        sets--;
    }
    *set = NULL;
    pthread_mutex_unlock(&lock);
}

NRT_STATUS nrt_add_tensor_to_tensor_set(set_t *set, const char *name, tensor_t *tensor) {
    ENTER("nrt_add_tensor_to_tensor_set");
    if (!alive("nrt_add_tensor_to_tensor_set", set, SET) || !alive("nrt_add_tensor_to_tensor_set", tensor, TENSOR)) LEAVE(INVALID);
    if (status) LEAVE(status);
    if (set->count == ADDED_MAX) LEAVE(RESOURCE);
    strncpy(set->names[set->count], name, 255);
    set->tensors[set->count++] = tensor;
    tensor->users++;
    LEAVE(SUCCESS);
}

NRT_STATUS nrt_tensor_allocate(int placement, int core, size_t size, const char *name, tensor_t **out) {
    ENTER("nrt_tensor_allocate");
    open_now("nrt_tensor_allocate");
    if (placement != 0 || core < 0 || core >= cores || !name) say("VIOLATION nrt_tensor_allocate with wrong arguments");
    if (status) LEAVE(status);
    tensor_t *tensor = calloc(1, sizeof *tensor);
    *tensor = (tensor_t){.kind = TENSOR, .core = core, .size = size, .bytes = malloc(size)};
    memset(tensor->bytes, 0xa5, size);
    tensors++;
    *out = tensor;
    LEAVE(SUCCESS);
}

void nrt_tensor_free(tensor_t **tensor) {
    pthread_mutex_lock(&lock);
    open_now("nrt_tensor_free");
    if (alive("nrt_tensor_free", *tensor, TENSOR)) {
        if ((*tensor)->users) say("VIOLATION nrt_tensor_free of a tensor that a set still has");
        free((*tensor)->bytes);
        (*tensor)->kind = DEAD;
        tensors--;
    }
    *tensor = NULL;
    pthread_mutex_unlock(&lock);
}

static int within(const char *call, const tensor_t *tensor, size_t offset, size_t size) {
    if (!alive(call, tensor, TENSOR)) return 0;
    if (offset + size <= tensor->size) return 1;
    say("VIOLATION %s of %zu+%zu bytes in a tensor of %zu", call, offset, size, tensor->size);
    return 0;
}

NRT_STATUS nrt_tensor_memset(tensor_t *tensor, uint64_t offset, int value, size_t size) {
    ENTER("nrt_tensor_memset");
    if (!within("nrt_tensor_memset", tensor, offset, size)) LEAVE(INVALID);
    memset(tensor->bytes + offset, value, size);
    LEAVE(status);
}

NRT_STATUS nrt_tensor_write(tensor_t *tensor, const void *bytes, size_t offset, size_t size) {
    ENTER("nrt_tensor_write");
    if (!within("nrt_tensor_write", tensor, offset, size)) LEAVE(INVALID);
    if (status) LEAVE(status);
    memcpy(tensor->bytes + offset, bytes, size);
    LEAVE(SUCCESS);
}

NRT_STATUS nrt_tensor_read(const tensor_t *tensor, void *bytes, size_t offset, size_t size) {
    ENTER("nrt_tensor_read");
    if (!within("nrt_tensor_read", tensor, offset, size)) LEAVE(INVALID);
    if (status) LEAVE(status);
    memcpy(bytes, tensor->bytes + offset, size);
    LEAVE(SUCCESS);
}

static tensor_t *of(const set_t *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->names[i], name)) return set->tensors[i];
    return NULL;
}

/* Every rank of a model waits for the others, as in a collective; where one fails the others time out. */
static NRT_STATUS collective(const model_t *model, int failed) {
    int mine = round_number;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    broken |= failed;
    if (++arrived == (int)model->ranks) {
        was_broken = broken;
        arrived = broken = 0;
        round_number++;
    }
    pthread_cond_broadcast(&met);
    while (!failed && mine == round_number && !broken)
        if (pthread_cond_timedwait(&met, &lock, &until)) break;
    return mine == round_number || was_broken ? TIMEOUT : SUCCESS;
}

/* The model: a token goes into the state at its slot and position; the next token is the sum over all visible positions of
 * (token + 1) * (position + 1), plus the sum of this rank's weights, modulo the vocabulary. */
static void compute(const model_t *model, const set_t *in, const set_t *out) {
    const int32_t *ids = (int32_t *)of(in, "input_ids")->bytes, *places = (int32_t *)of(in, "position_ids")->bytes;
    const int32_t *mask = (int32_t *)of(in, "attention_mask")->bytes, *slots = (int32_t *)of(in, "seq_ids")->bytes;
    const tensor_t *weight = of(in, "layer.weight"), *scale = of(in, "layer.scale");
    int32_t *kept = (int32_t *)of(in, "kv")->bytes, *next = (int32_t *)of(out, "tokens")->bytes;
    int longest = (int)(of(in, "kv")->size / 4 / 64); /* 64 slots at most */
    int64_t learned = 0;
    static int known[RANKS_MAX];
    for (size_t i = 0; weight && i < weight->size; i++) learned += ((int8_t *)weight->bytes)[i];
    if (scale) learned *= (int64_t)*(float *)scale->bytes;
    if (!known[model->rank]++) say("rank %u learned %lld", model->rank, (long long)learned);
    for (int row = 0; row < model->rows; row++) {
        int columns = model->decode ? 1 : model->length, seen = 0;
        for (int i = 0; i < model->length; i++) seen += mask[row * model->length + i];
        for (int i = 0; i < columns && (model->decode || i < seen); i++)
            kept[slots[row] * longest + places[row * columns + i]] = ids[row * columns + i];
        int64_t sum = learned;
        for (int i = 0; i < seen; i++) sum += (int64_t)(kept[slots[row] * longest + i] + 1) * (i + 1);
        next[row] = (int32_t)(((sum % model->vocabulary) + model->vocabulary) % model->vocabulary);
    }
}

NRT_STATUS nrt_execute(model_t *model, const set_t *in, set_t *out) {
    pthread_mutex_lock(&lock);
    if (!open_now("nrt_execute") || !alive("nrt_execute", model, MODEL) || !alive("nrt_execute", in, SET) ||
        !alive("nrt_execute", out, SET))
        LEAVE(INVALID);
    if (!model->rank) say("nrt_execute %s rows=%d length=%d", model->decode ? "decode" : "prefill", model->rows, model->length);
    for (int i = 0; i < model->count; i++) {
        const info_t *info = &model->infos[i];
        tensor_t *tensor = of(info->usage ? out : in, info->name);
        if (!tensor) say("VIOLATION nrt_execute without %s", info->name);
        else if (alive("nrt_execute: a tensor", tensor, TENSOR) && (tensor->size != info->size || tensor->core != model->core))
            say("VIOLATION nrt_execute with another %s", info->name);
    }
    while (hang_at && !model->rank && executed_by_first + 1 == hang_at) {
        struct timespec pause = {.tv_nsec = 10000000};
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
    }
    if (!model->rank) executed_by_first++;
    int status = told("nrt_execute", (int)model->rank);
    if (model->ranks > 1) {
        NRT_STATUS together = collective(model, status != 0);
        status = status ? status : together;
    }
    if (status) LEAVE(status);
    compute(model, in, out);
    pthread_mutex_unlock(&lock);
    if (execute_us) usleep((useconds_t)execute_us);
    return SUCCESS;
}
