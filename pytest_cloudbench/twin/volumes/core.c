/* The law of pacer.py and the loop of request_loop.py, compiled. The names and the reasons are in those modules, and
   tests compare the answers of both.

   Times are seconds of the monotonic clock, sizes bytes, rates per second. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <errno.h>
#include <linux/fuse.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* --- pacing.py ------------------------------------------------------------------------------------------------- */

#define BURST_S 0.001

typedef struct {
    double capacity, refill, spend, level, factor, least_gain, as_of, used;
} Credits;

typedef struct {
    double next, cost_s, waited_until, waiting;
    bool bursts;
    Credits credits;
} Budget;

typedef struct {
    Budget iops, bytes;
    Budget *held_by;
} Stage;

typedef struct {
    double seconds, until;
} Waiting;

static double credits_take(Credits *credits, double amount, double at, double begin) {
    if (at > credits->as_of) {
        double level = credits->level + (at - credits->as_of) * credits->refill * credits->factor;
        credits->level = level < credits->capacity ? level : credits->capacity;
        credits->as_of = at;
    }
    credits->level -= amount * credits->factor;
    credits->used += amount;
    double takes = amount / credits->spend;
    if (credits->level < 0.0) {
        double refilled = -credits->level / (credits->refill * credits->factor) - (begin - credits->as_of);
        return refilled > takes ? refilled : takes;
    }
    return takes;
}

static double budget_level_at(const Budget *budget, double now) {
    const Credits *credits = &budget->credits;
    if (!budget->bursts)
        return NAN;
    double level = credits->level + budget->waiting * credits->factor +
                   fmax(0.0, now - credits->as_of) * credits->refill * credits->factor;
    return fmax(0.0, fmin(credits->capacity, level));
}

static void credits_earn_least_gain(Credits *credits, double seconds, bool waited) {
    double unused = credits->refill - credits->used / seconds;
    credits->used = 0.0;
    if (credits->least_gain != 0.0 && !waited && unused >= 0.0) {
        double missing = fmax(0.0, credits->least_gain - unused) * seconds * credits->factor;
        credits->level = fmin(credits->capacity, credits->level + missing);
    }
}

static void budget_charge(Budget *budget, double amount, double at) {
    double begin = budget->next > at ? budget->next : at;
    double takes = budget->bursts ? credits_take(&budget->credits, amount, at, begin) : amount * budget->cost_s;
    budget->next = begin + takes;
}

static void stage_clear(Stage *stage) {
    memset(stage, 0, sizeof *stage);
    stage->iops.waited_until = stage->bytes.waited_until = -INFINITY;
}

static double stage_let_through(Stage *stage, double arrival, double ios, double size) {
    double at = arrival;
    double by_ios = ios > 0 ? stage->iops.next - BURST_S : at, by_bytes = stage->bytes.next - BURST_S;
    stage->held_by = NULL;
    if (by_ios > at || by_bytes > at) {
        stage->held_by = by_ios >= by_bytes ? &stage->iops : &stage->bytes;
        at = by_ios >= by_bytes ? by_ios : by_bytes;
        stage->held_by->waited_until = at;
    }
    budget_charge(&stage->iops, ios, arrival);
    budget_charge(&stage->bytes, size, arrival);
    return at;
}

static void stage_hold(Stage *stage, double ios, double size) {
    stage->iops.waiting += ios;
    stage->bytes.waiting += size;
}

static void waiting_add(Waiting *waiting, double arrival, double until) {
    double since = arrival > waiting->until ? arrival : waiting->until;
    if (until > since) {
        waiting->seconds += until - since;
        waiting->until = until;
    }
}

static double waiting_seconds(const Waiting *waiting, double now) {
    return waiting->seconds - fmax(0.0, waiting->until - now);
}

/* --- sequences.py ---------------------------------------------------------------------------------------------- */

#define FOLLOWS_WITHIN_S 1.0
#define BELIEVED 3 /* the number of continuations in a row that make a sequence */
#define CONTINUED 4
#define NEAR_IOS 256
#define FAR_IOS 4096
#define MORE_RECENT 16

/* Two hash tables. Each holds at most FAR_IOS + 2 entries, so half of its slots are free. */
#define SLOT_BITS 13
#define SLOTS (1 << SLOT_BITS)

typedef struct {
    uint64_t key; /* 0: free */
    double then;
    int64_t filled, number, too_many;
    int sequels;
} Ended;

typedef struct {
    int64_t unit, number;
    bool merging, continued;
    Ended *recent, *older;
    int kept;
} Sequences;

static Ended *slot_of(Ended *table, uint64_t key) {
    uint64_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - SLOT_BITS);
    while (table[at].key != 0 && table[at].key != key)
        at = (at + 1) % SLOTS;
    return &table[at];
}

static const Ended *find_ended(const Sequences *sequences, uint64_t key) {
    const Ended *found = slot_of(sequences->recent, key);
    if (found->key == 0)
        found = slot_of(sequences->older, key);
    return found->key == 0 ? NULL : found;
}

static void keep_ended(Sequences *sequences, Ended entry) {
    Ended *slot = slot_of(sequences->recent, entry.key);
    sequences->kept += slot->key == 0;
    *slot = entry;
}

static bool continues(const Sequences *sequences, const Ended *before, double now, uint64_t end) {
    int64_t ago = sequences->number - before->number;
    if (before->sequels == CONTINUED || now - before->then >= FOLLOWS_WITHIN_S)
        return false;
    if (ago > (before->sequels == BELIEVED ? FAR_IOS : NEAR_IOS))
        return false;
    const Ended *same = find_ended(sequences, end);
    return same == NULL || ago * MORE_RECENT <= sequences->number - same->number;
}

static int64_t whole(int64_t size, int64_t unit) {
    return (size + unit - 1) / unit;
}

static int64_t sequences_count(Sequences *sequences, double now, uint64_t offset, int64_t size, bool write) {
    int64_t unit = sequences->unit, ios = whole(size, unit);
    if (!sequences->merging)
        return ios;
    sequences->number++;
    uint64_t begin = offset * 2 + write + 1, end = (offset + (uint64_t)size) * 2 + write + 1;
    const Ended *before = find_ended(sequences, begin);
    sequences->continued = before != NULL && continues(sequences, before, now, end);
    Ended entry = {.key = end, .then = now, .number = sequences->number};
    if (!sequences->continued) {
        entry.filled = size - (ios - 1) * unit;
    } else {
        Ended old = *before;
        int64_t together = whole(old.filled + size, unit) - 1;
        entry.filled = old.filled + size - together * unit;
        entry.sequels = old.sequels + 1 < BELIEVED ? old.sequels + 1 : BELIEVED;
        if (entry.sequels == BELIEVED)
            ios = together - old.too_many;
        else
            entry.too_many = old.too_many + ios - together;
        old.sequels = CONTINUED;
        keep_ended(sequences, old);
    }
    keep_ended(sequences, entry);
    if (sequences->kept > FAR_IOS) {
        Ended *forgotten = sequences->older;
        sequences->older = sequences->recent;
        sequences->recent = memset(forgotten, 0, SLOTS * sizeof *forgotten);
        sequences->kept = 0;
    }
    return ios;
}

static bool sequences_start(Sequences *sequences, int64_t unit, bool merging) {
    Ended *recent = calloc(SLOTS, sizeof *recent), *older = calloc(SLOTS, sizeof *older);
    if (recent == NULL || older == NULL) {
        free(recent);
        free(older);
        return false;
    }
    free(sequences->recent);
    free(sequences->older);
    *sequences = (Sequences){.unit = unit, .merging = merging, .recent = recent, .older = older};
    return true;
}

/* --- pacer.py -------------------------------------------------------------------------------------------------- */

typedef struct {
    long long node;
    int backing;
    bool failed, whole_units;
    Py_buffer state;
    Py_ssize_t untouched_at, bits_at;
    int64_t piece_bytes;
    double path_s, touch_share, large_write_share;
    int64_t large_write;
    Stage reads, own_writes, *writes;
    Budget touch;
    Sequences sequences;
    double means[4], bytes_per_s; /* of reads and writes, then the same if sequential */
    int64_t stated_at;
    Py_buffer factors; /* doubles; without an object there is no service time */
    Py_ssize_t turn;
    Waiting waited[4];
    long long ops[2], moved[2], in_flight, answered;
    double times[2], modelled_s, late_s;
} Volume;

typedef struct {
    double due;
    uint64_t number;
    Volume *volume;
    double arrival, earliest, ios;
    Stage *waits_in; /* and what was charged there; NULL if it waits for no limit */
    double charged_ios, charged_bytes;
    int64_t offset, size;
    uint64_t unique;
    int problem;
    bool write, passed;
} Request;

typedef struct {
    PyObject_HEAD
    char paced;
    Stage instance;
    double earned_at;
    Volume **volumes;
    Py_ssize_t volume_count;
    Request *heap;
    size_t waiting, room, between; /* between: requests that have not passed the instance's stage yet */
    uint64_t count;
} Pacer;

static bool before(const Request *one, const Request *other) {
    return one->due < other->due || (one->due == other->due && one->number < other->number);
}

static int in_order(const void *one, const void *other) {
    return before(one, other) ? -1 : 1;
}

/* Put a request at the free position `at` or above, moving later ones down. */
static void sift_up(Request *heap, size_t at, const Request *request) {
    while (at > 0 && before(request, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = *request;
}

static void heap_push(Pacer *pacer, const Request *request) {
    sift_up(pacer->heap, pacer->waiting++, request);
}

static Request heap_pop(Pacer *pacer) {
    Request *heap = pacer->heap, first = heap[0], last = heap[--pacer->waiting];
    size_t at = 0, count = pacer->waiting;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

static bool heap_has_room(Pacer *pacer) {
    if (pacer->waiting < pacer->room)
        return true;
    size_t room = pacer->room ? 2 * pacer->room : 1024;
    Request *heap = realloc(pacer->heap, room * sizeof *heap);
    if (heap == NULL) {
        PyErr_NoMemory();
        return false;
    }
    pacer->heap = heap;
    pacer->room = room;
    return true;
}

static Volume *find_volume(const Pacer *pacer, long long node) {
    for (Py_ssize_t at = 0; at < pacer->volume_count; at++)
        if (pacer->volumes[at]->node == node)
            return pacer->volumes[at];
    return NULL;
}

/* Mark pieces as used; return how many must be fetched, and the share of the rate for this request. */
static int64_t touched(Volume *volume, int64_t offset, int64_t size, bool write, double *share) {
    uint8_t *memory = volume->state.buf;
    uint64_t untouched;
    memcpy(&untouched, memory + volume->untouched_at, sizeof untouched);
    if (untouched == 0)
        return 0;
    int64_t piece = volume->piece_bytes, end = whole(offset + size, piece), found = 0;
    for (int64_t at = offset / piece; at < end && volume->bits_at + (at >> 3) < volume->state.len; at++) {
        uint8_t *byte = memory + volume->bits_at + (at >> 3), bit = (uint8_t)(1 << (at & 7));
        found += (*byte & bit) != 0;
        *byte &= (uint8_t)~bit;
    }
    if (found == 0)
        return 0;
    untouched -= (uint64_t)found;
    memcpy(memory + volume->untouched_at, &untouched, sizeof untouched);
    double unused = (double)found / (double)(end - offset / piece);
    *share = 1.0 / (unused / volume->touch_share + 1.0 - unused);
    return write && offset % piece == 0 && size % piece == 0 ? 0 : found;
}

static void wait_in(Request *request, Stage *stage, double ios, double size) {
    request->waits_in = stage;
    request->charged_ios = ios;
    request->charged_bytes = size;
    stage_hold(stage, ios, size);
}

static void leave(Pacer *pacer, Request *request) {
    pacer->between -= !request->passed;
    if (request->waits_in != NULL)
        stage_hold(request->waits_in, -request->charged_ios, -request->charged_bytes);
    request->waits_in = NULL;
}

static void pass_instance(Pacer *pacer, Request *request, double at) {
    Stage *instance = &pacer->instance;
    double size = (double)request->size, due = stage_let_through(instance, at, request->ios, size);
    if (instance->held_by != NULL) {
        waiting_add(&request->volume->waited[2 + (instance->held_by == &instance->bytes)], at, due);
        wait_in(request, instance, request->ios, size);
    }
    request->passed = true;
    request->due = request->earliest > due ? request->earliest : due;
}

/* Set the time at which the request is due. */
static void pace(Pacer *pacer, Request *request) {
    Volume *volume = request->volume;
    double now = request->arrival, size = (double)request->size;
    bool write = request->write;
    int64_t unit = volume->sequences.unit;
    int64_t ios = sequences_count(&volume->sequences, now, (uint64_t)request->offset, request->size, write);
    bool sequential = volume->sequences.continued;
    double charged = volume->whole_units ? (double)(ios * unit) : size;
    request->ios = (double)ios;
    if (volume->factors.obj != NULL) {
        const double *factors = volume->factors.buf;
        volume->turn = (volume->turn + 1) % (volume->factors.len / (Py_ssize_t)sizeof *factors);
        double mean = volume->means[2 * sequential + write];
        request->earliest += mean * factors[volume->turn] - volume->path_s;
        if (request->size > volume->stated_at)
            request->earliest += (double)(request->size - volume->stated_at) / volume->bytes_per_s;
    }
    double share = 1.0;
    int64_t fetched = touched(volume, request->offset, request->size, write, &share);
    Stage *stage = write ? volume->writes : &volume->reads;
    if (write && request->size > volume->large_write)
        share *= volume->large_write_share;
    double taken = request->ios / share;
    charged /= share;
    double leaves = stage_let_through(stage, now, taken, charged);
    if (stage->held_by != NULL) {
        bool padded = volume->whole_units && !sequential && request->size < unit;
        waiting_add(&volume->waited[stage->held_by == &stage->bytes && !padded], now, leaves);
    }
    if (fetched && volume->touch.cost_s != 0.0) {
        budget_charge(&volume->touch, (double)fetched, leaves);
        request->earliest = fmax(request->earliest, volume->touch.next);
    }
    /* Requests pass the instance's stage in the order of the model, also if this machine is late. */
    if (leaves <= now && pacer->between == 0) {
        pass_instance(pacer, request, now);
    } else {
        request->passed = false;
        request->due = leaves;
        wait_in(request, stage, taken, charged);
        pacer->between++;
    }
}

static bool arrive(Pacer *pacer, Request *request) {
    if (!heap_has_room(pacer))
        return false;
    request->due = request->earliest = request->arrival;
    request->passed = true;
    request->ios = 0.0;
    request->number = ++pacer->count;
    request->volume->in_flight++;
    if (pacer->paced) {
        pace(pacer, request);
    } else {
        double share;
        touched(request->volume, request->offset, request->size, request->write, &share);
    }
    heap_push(pacer, request);
    return true;
}

static double next_event(const Pacer *pacer) {
    return pacer->waiting ? pacer->heap[0].due : INFINITY;
}

static bool take_due(Pacer *pacer, double now, Request *found) {
    while (pacer->waiting && (pacer->heap[0].due <= now || !pacer->paced)) {
        *found = heap_pop(pacer);
        leave(pacer, found);
        if (found->passed || !pacer->paced)
            return true;
        pass_instance(pacer, found, found->due);
        heap_push(pacer, found);
    }
    return false;
}

static void done(const Pacer *pacer, const Request *request, double now) {
    Volume *volume = request->volume;
    volume->ops[request->write]++;
    volume->moved[request->write] += request->size;
    volume->times[request->write] += now - request->arrival;
    volume->in_flight--;
    if (pacer->paced) {
        volume->answered++;
        volume->modelled_s += request->due - request->arrival + volume->path_s;
        if (now > request->due)
            volume->late_s += now - request->due;
    }
}

/* Remove a volume's requests from the heap: they follow the remaining ones in memory, in their order. */
static size_t take_out(Pacer *pacer, const Volume *volume) {
    size_t count = pacer->waiting, kept = 0;
    for (size_t at = 0; at < count; at++)
        if (pacer->heap[at].volume != volume) {
            Request request = pacer->heap[at];
            pacer->heap[at] = pacer->heap[kept];
            sift_up(pacer->heap, kept++, &request);
        }
    pacer->waiting = kept;
    if (count > kept)
        qsort(pacer->heap + kept, count - kept, sizeof *pacer->heap, in_order);
    for (size_t at = kept; at < count; at++)
        leave(pacer, &pacer->heap[at]);
    return count - kept;
}

static void forget(Volume *volume) {
    if (volume->state.obj != NULL)
        PyBuffer_Release(&volume->state);
    free(volume->sequences.recent);
    free(volume->sequences.older);
    if (volume->factors.obj != NULL)
        PyBuffer_Release(&volume->factors);
    free(volume);
}

/* --- the type Pacer -------------------------------------------------------------------------------------------- */

/* A limit as Python passes it: per second, whether it bursts, and the bucket with its level. */
typedef struct {
    double per_second;
    int bursts;
    Credits credits;
} Limit;

#define LIMIT "(dpdddddd)"
#define LIMIT_INTO(limit)                                                                                            \
    &(limit).per_second, &(limit).bursts, &(limit).credits.capacity, &(limit).credits.refill, &(limit).credits.spend, \
        &(limit).credits.level, &(limit).credits.factor, &(limit).credits.least_gain

static void budget_change(Budget *budget, const Limit *limit, double as_of) {
    budget->cost_s = 1.0 / limit->per_second;
    budget->bursts = limit->bursts;
    budget->credits = limit->credits;
    budget->credits.as_of = as_of;
    budget->credits.level -= budget->waiting * limit->credits.factor;
}

/* A volume that Python names by its node. */
typedef struct {
    const Pacer *pacer;
    Volume *volume;
} Named;

static int known_volume(PyObject *node, void *converted) {
    Named *named = converted;
    long long number = PyLong_AsLongLong(node);
    if (number == -1 && PyErr_Occurred())
        return 0;
    if ((named->volume = find_volume(named->pacer, number)) == NULL)
        PyErr_SetObject(PyExc_KeyError, node);
    return named->volume != NULL;
}

static int as_time(PyObject *number, double *time) {
    *time = PyFloat_AsDouble(number);
    return *time != -1.0 || !PyErr_Occurred();
}

static PyObject *pacer_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(named)) {
    Pacer *self = (Pacer *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->paced = 1;
        stage_clear(&self->instance);
    }
    return (PyObject *)self;
}

static void pacer_dealloc(Pacer *self) {
    for (Py_ssize_t at = 0; at < self->volume_count; at++)
        forget(self->volumes[at]);
    free(self->volumes);
    free(self->heap);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *pacer_add_volume(Pacer *self, PyObject *args) {
    Volume *volume = calloc(1, sizeof *volume);
    if (volume == NULL)
        return PyErr_NoMemory();
    long long piece_bytes;
    if (!PyArg_ParseTuple(args, "Lidw*nnL", &volume->node, &volume->backing, &volume->path_s, &volume->state,
                          &volume->untouched_at, &volume->bits_at, &piece_bytes)) {
        volume->state.obj = NULL;
        goto failed;
    }
    if (find_volume(self, volume->node) != NULL || piece_bytes <= 0 || volume->untouched_at < 0 ||
        volume->bits_at < volume->untouched_at + (Py_ssize_t)sizeof(uint64_t) || volume->state.len < volume->bits_at) {
        PyErr_SetString(PyExc_ValueError, "the volume exists already, or its state is too small");
        goto failed;
    }
    Volume **volumes = realloc(self->volumes, (size_t)(self->volume_count + 1) * sizeof *volumes);
    if (volumes != NULL)
        self->volumes = volumes;
    if (volumes == NULL || !sequences_start(&volume->sequences, 1, false)) {
        PyErr_NoMemory();
        goto failed;
    }
    volume->piece_bytes = piece_bytes;
    stage_clear(&volume->reads);
    stage_clear(&volume->own_writes);
    volume->writes = &volume->reads;
    volume->touch_share = volume->large_write_share = 1.0;
    self->volumes[self->volume_count++] = volume;
    Py_RETURN_NONE;
failed:
    forget(volume);
    return NULL;
}

/* Limit a volume, or all volumes together (None). `writes_alone`: these limits hold for the volume's writes alone. */
static PyObject *pacer_set_limits(Pacer *self, PyObject *args) {
    Named named = {self, NULL};
    PyObject *node;
    Limit iops = {0}, bytes = {0};
    int writes_alone;
    double as_of;
    if (!PyArg_ParseTuple(args, "Op" LIMIT LIMIT "d", &node, &writes_alone, LIMIT_INTO(iops), LIMIT_INTO(bytes),
                          &as_of))
        return NULL;
    Stage *stage = &self->instance;
    if (node == Py_None) {
        self->earned_at = as_of;
    } else {
        if (!known_volume(node, &named))
            return NULL;
        stage = writes_alone ? &named.volume->own_writes : &named.volume->reads;
        named.volume->writes = stage;
    }
    budget_change(&stage->iops, &iops, as_of);
    budget_change(&stage->bytes, &bytes, as_of);
    Py_RETURN_NONE;
}

/* Set how a volume's requests are counted. They have no service time until one is set. */
static PyObject *pacer_set_counting(Pacer *self, PyObject *args) {
    Named named = {self, NULL};
    long long unit, large_write;
    int merging, whole_units;
    double touch_per_s, touch_share, large_write_share;
    if (!PyArg_ParseTuple(args, "O&LppddLd", known_volume, &named, &unit, &merging, &whole_units, &touch_per_s,
                          &touch_share, &large_write, &large_write_share))
        return NULL;
    Volume *volume = named.volume;
    if (unit <= 0)
        return PyErr_Format(PyExc_ValueError, "a unit of %lld bytes", unit);
    if (!sequences_start(&volume->sequences, unit, merging))
        return PyErr_NoMemory();
    volume->whole_units = whole_units;
    volume->touch.cost_s = 1.0 / touch_per_s;
    volume->touch_share = touch_share;
    volume->large_write = large_write;
    volume->large_write_share = large_write_share;
    if (volume->factors.obj != NULL)
        PyBuffer_Release(&volume->factors);
    Py_RETURN_NONE;
}

static PyObject *pacer_set_service_times(Pacer *self, PyObject *args) {
    Named named = {self, NULL};
    long long stated_at;
    double means[4], bytes_per_s;
    Py_buffer factors;
    if (!PyArg_ParseTuple(args, "O&(dddd)dLy*", known_volume, &named, &means[0], &means[1], &means[2], &means[3],
                          &bytes_per_s, &stated_at, &factors))
        return NULL;
    Volume *volume = named.volume;
    if (factors.len < (Py_ssize_t)sizeof(double)) {
        PyBuffer_Release(&factors);
        return PyErr_Format(PyExc_ValueError, "no factors");
    }
    if (volume->factors.obj != NULL)
        PyBuffer_Release(&volume->factors);
    volume->factors = factors;
    volume->turn %= factors.len / (Py_ssize_t)sizeof(double);
    memcpy(volume->means, means, sizeof means);
    volume->bytes_per_s = bytes_per_s;
    volume->stated_at = stated_at;
    Py_RETURN_NONE;
}

static PyObject *pacer_remove(Pacer *self, PyObject *node) {
    Named named = {self, NULL};
    if (!known_volume(node, &named))
        return NULL;
    take_out(self, named.volume);
    for (Py_ssize_t at = 0; at < self->volume_count; at++)
        if (self->volumes[at] == named.volume)
            self->volumes[at] = self->volumes[--self->volume_count];
    forget(named.volume);
    Py_RETURN_NONE;
}

static PyObject *pacer_arrive(Pacer *self, PyObject *args, PyObject *named) {
    static char *names[] = {"node", "now", "offset", "size", "write", "unique", "problem", NULL};
    Named volume = {self, NULL};
    long long offset, size;
    unsigned long long unique = 0;
    int write, problem = 0;
    Request request = {0};
    if (!PyArg_ParseTupleAndKeywords(args, named, "O&dLLp|Ki", names, known_volume, &volume, &request.arrival, &offset,
                                     &size, &write, &unique, &problem))
        return NULL;
    if (offset < 0 || size < 0 || size > INT64_MAX / 4 - offset)
        return PyErr_Format(PyExc_ValueError, "a request of %lld bytes at %lld", size, offset);
    request.volume = volume.volume;
    request.offset = offset;
    request.size = size;
    request.write = write;
    request.unique = unique;
    request.problem = problem;
    if (!arrive(self, &request))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pacer_next_event(Pacer *self, PyObject *Py_UNUSED(none)) {
    return PyFloat_FromDouble(next_event(self));
}

static PyObject *as_answer(const Request *request) {
    return Py_BuildValue("(dLdLOLKi)", request->due, request->volume->node, request->arrival,
                         (long long)request->size, request->write ? Py_True : Py_False, (long long)request->offset,
                         (unsigned long long)request->unique, request->problem);
}

/* Read what as_answer made. The request has no volume if that was removed. */
static bool from_answer(const Pacer *pacer, PyObject *answer, Request *request) {
    long long node, size, offset;
    unsigned long long unique;
    int write;
    *request = (Request){0};
    if (!PyTuple_Check(answer)) {
        PyErr_SetString(PyExc_TypeError, "an answer is a tuple");
        return false;
    }
    if (!PyArg_ParseTuple(answer, "dLdLpLKi", &request->due, &node, &request->arrival, &size, &write, &offset, &unique,
                          &request->problem))
        return false;
    request->volume = find_volume(pacer, node);
    request->size = size;
    request->offset = offset;
    request->unique = unique;
    request->write = write;
    return true;
}

static PyObject *pacer_take_due(Pacer *self, PyObject *time) {
    double now;
    if (!as_time(time, &now))
        return NULL;
    Request found;
    if (!take_due(self, now, &found))
        Py_RETURN_NONE;
    return as_answer(&found);
}

static PyObject *pacer_done(Pacer *self, PyObject *args) {
    PyObject *answer;
    double now;
    Request request;
    if (!PyArg_ParseTuple(args, "Od", &answer, &now) || !from_answer(self, answer, &request))
        return NULL;
    if (request.volume == NULL)
        return PyErr_Format(PyExc_KeyError, "the request's volume was removed");
    done(self, &request, now);
    Py_RETURN_NONE;
}

static int backing_of(const Volume *volume) {
    return volume == NULL || volume->failed ? -1 : volume->backing;
}

static PyObject *pacer_backing(Pacer *self, PyObject *node) {
    long long number = PyLong_AsLongLong(node);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(backing_of(find_volume(self, number)));
}

static PyObject *pacer_fail(Pacer *self, PyObject *node) {
    Named named = {self, NULL};
    if (!known_volume(node, &named))
        return NULL;
    named.volume->failed = true;
    Py_RETURN_NONE;
}

static PyObject *pacer_drop(Pacer *self, PyObject *node) {
    long long number = PyLong_AsLongLong(node);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    Volume *volume = find_volume(self, number);
    size_t count = volume == NULL ? 0 : take_out(self, volume);
    PyObject *dropped = PyList_New((Py_ssize_t)count);
    for (size_t at = 0; dropped != NULL && at < count; at++) {
        PyObject *answer = as_answer(&self->heap[self->waiting + at]);
        if (answer == NULL)
            Py_CLEAR(dropped);
        else
            PyList_SET_ITEM(dropped, (Py_ssize_t)at, answer);
    }
    return dropped;
}

static PyObject *pacer_earn(Pacer *self, PyObject *time) {
    double now;
    if (!as_time(time, &now))
        return NULL;
    double seconds = now - self->earned_at;
    Budget *budgets[] = {&self->instance.iops, &self->instance.bytes};
    for (int at = 0; at < 2; at++)
        if (budgets[at]->bursts && seconds > 0)
            credits_earn_least_gain(&budgets[at]->credits, seconds, budgets[at]->waited_until >= self->earned_at);
    self->earned_at = now;
    Py_RETURN_NONE;
}

static PyObject *pacer_levels(Pacer *self, PyObject *args) {
    PyObject *node;
    double now;
    if (!PyArg_ParseTuple(args, "Od", &node, &now))
        return NULL;
    Named named = {self, NULL};
    if (node != Py_None && !known_volume(node, &named))
        return NULL;
    const Stage *stage = node == Py_None ? &self->instance : &named.volume->reads;
    return Py_BuildValue("(dd)", budget_level_at(&stage->iops, now), budget_level_at(&stage->bytes, now));
}

static PyObject *pacer_counts(Pacer *self, PyObject *args) {
    Named named = {self, NULL};
    double now;
    if (!PyArg_ParseTuple(args, "O&d", known_volume, &named, &now))
        return NULL;
    const Volume *volume = named.volume;
    const Waiting *waited = volume->waited;
    return Py_BuildValue("(LLLLddddddLLdd)", volume->ops[0], volume->ops[1], volume->moved[0], volume->moved[1],
                         volume->times[0], volume->times[1], waiting_seconds(&waited[0], now),
                         waiting_seconds(&waited[1], now), waiting_seconds(&waited[2], now),
                         waiting_seconds(&waited[3], now), volume->in_flight, volume->answered, volume->modelled_s,
                         volume->late_s);
}

#define METHOD(name, function, flags) {name, (PyCFunction)(void (*)(void))(function), flags, NULL}

static PyMethodDef pacer_methods[] = {
    METHOD("add_volume", pacer_add_volume, METH_VARARGS),
    METHOD("set_limits", pacer_set_limits, METH_VARARGS),
    METHOD("set_counting", pacer_set_counting, METH_VARARGS),
    METHOD("set_service_times", pacer_set_service_times, METH_VARARGS),
    METHOD("remove", pacer_remove, METH_O),
    METHOD("arrive", pacer_arrive, METH_VARARGS | METH_KEYWORDS),
    METHOD("next_event", pacer_next_event, METH_NOARGS),
    METHOD("take_due", pacer_take_due, METH_O),
    METHOD("done", pacer_done, METH_VARARGS),
    METHOD("backing", pacer_backing, METH_O),
    METHOD("fail", pacer_fail, METH_O),
    METHOD("drop", pacer_drop, METH_O),
    METHOD("earn", pacer_earn, METH_O),
    METHOD("levels", pacer_levels, METH_VARARGS),
    METHOD("counts", pacer_counts, METH_VARARGS),
    {NULL, NULL, 0, NULL},
};

static PyMemberDef pacer_members[] = {{"paced", T_BOOL, offsetof(Pacer, paced), 0, NULL}, {NULL, 0, 0, 0, NULL}};

static PyTypeObject PacerType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pytest_cloudbench.twin.volumes.core.Pacer",
    .tp_basicsize = sizeof(Pacer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = pacer_new,
    .tp_dealloc = (destructor)pacer_dealloc,
    .tp_methods = pacer_methods,
    .tp_members = pacer_members,
};

/* --- request_loop.py ------------------------------------------------------------------------------------------- */

#define BATCH 32
#define LARGE_WRITE (64 * 1024) /* takes as long as many small ones, so other requests may be due afterwards */
#define MOST_OVERSHOOT_S 0.0002
#define EARLY_S 0.00001

typedef struct {
    PyObject_HEAD
    Pacer *pacer;
    int device, control;
    struct {
        struct fuse_in_header head;
        struct fuse_read_in body; /* also the used part of a write's */
    } request;
    char *data;
    size_t largest;
    double overshoot_s;
} Loop;

_Static_assert(sizeof(struct fuse_in_header) + sizeof(struct fuse_read_in) == 80, "a request has no padding");
_Static_assert(sizeof(struct fuse_write_in) == sizeof(struct fuse_read_in), "a write's data follow at the same place");

enum { BROKEN = -1, MORE, END, REQUEST };

static PyObject *event(const char *name) {
    return Py_BuildValue("(sy)", name, "");
}

static bool send_answer(const Loop *self, uint64_t unique, int error, void *body, size_t size) {
    struct fuse_out_header head = {.len = (uint32_t)(sizeof head + size), .error = -error, .unique = unique};
    struct iovec parts[] = {{&head, sizeof head}, {body, size}};
    while (writev(self->device, parts, 2) < 0) {
        /* The request was interrupted, or the file system is gone, which the next read reports. */
        if (errno == ENOENT || errno == ENODEV)
            break;
        if (errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
            return false;
        }
    }
    return true;
}

static bool answer(Loop *self, const Request *request) {
    int backing = backing_of(request->volume), problem = request->problem;
    size_t size = (size_t)request->size;
    bool sent;
    if (problem == 0 && backing < 0)
        problem = EIO;
    if (problem != 0) {
        sent = send_answer(self, request->unique, problem, NULL, 0);
    } else if (request->write) {
        struct fuse_write_out written = {.size = (uint32_t)size};
        sent = send_answer(self, request->unique, 0, &written, sizeof written);
    } else {
        ssize_t got;
        while ((got = pread(backing, self->data, size, request->offset)) < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            sent = send_answer(self, request->unique, errno, NULL, 0);
        } else {
            memset(self->data + got, 0, size - (size_t)got);
            sent = send_answer(self, request->unique, 0, self->data, size);
        }
    }
    if (sent && request->volume != NULL)
        done(self->pacer, request, monotonic());
    return sent;
}

/* Accept a read or a write. */
static bool take_request(Loop *self, size_t length) {
    const struct fuse_in_header *head = &self->request.head;
    const struct fuse_read_in *body = &self->request.body;
    bool write = head->opcode == FUSE_WRITE;
    Volume *volume = find_volume(self->pacer, (long long)head->nodeid);
    int backing = backing_of(volume), problem = 0;
    if (backing < 0 || body->size > self->largest || body->offset > INT64_MAX / 4 ||
        length < sizeof self->request + (write ? body->size : 0))
        return send_answer(self, head->unique, EIO, NULL, 0);
    if (write) {
        ssize_t got;
        while ((got = pwrite(backing, self->data, body->size, (off_t)body->offset)) < 0 && errno == EINTR)
            continue;
        problem = got < 0 ? errno : (size_t)got < body->size ? ENOSPC : 0;
    }
    Request request = {
        .volume = volume, .arrival = monotonic(), .offset = (int64_t)body->offset, .size = body->size, .write = write,
        .unique = head->unique, .problem = problem,
    };
    return arrive(self->pacer, &request);
}

static int take_requests(Loop *self, int *taken, size_t *length) {
    struct iovec parts[] = {{&self->request, sizeof self->request}, {self->data, self->largest}};
    for (*taken = 0; *taken < BATCH; ++*taken) {
        ssize_t got = readv(self->device, parts, 2);
        if (got < 0 && errno == EAGAIN)
            return MORE;
        if (got == 0 || (got < 0 && errno == ENODEV))
            return END;
        if (got < 0)
            continue; /* the request was interrupted meanwhile */
        *length = (size_t)got;
        if (*length < sizeof self->request.head ||
            (self->request.head.opcode != FUSE_READ && self->request.head.opcode != FUSE_WRITE))
            return REQUEST;
        if (!take_request(self, *length))
            return BROKEN;
        if (*length > LARGE_WRITE) {
            ++*taken;
            return MORE;
        }
    }
    return MORE;
}

static int answer_due(Loop *self) {
    Request found;
    for (int given = 0; given < BATCH; given++) {
        if (!take_due(self->pacer, monotonic() + EARLY_S, &found))
            return given;
        if (!answer(self, &found))
            return BROKEN;
    }
    return BATCH;
}

/* Wait for requests until a time; return 1 if the region has sent a message, or BROKEN. */
static int wait_until(Loop *self, double now, double until) {
    struct pollfd both[] = {{.fd = self->device, .events = POLLIN}, {.fd = self->control, .events = POLLIN}};
    double timeout = isinf(until) ? 0.0 : fmin(fmax(0.0, until - now - self->overshoot_s), 1e6);
    struct timespec wait = {.tv_sec = (time_t)timeout};
    wait.tv_nsec = (long)((timeout - (double)wait.tv_sec) * 1e9);
    int ready;
    Py_BEGIN_ALLOW_THREADS
    ready = ppoll(both, 2, isinf(until) ? NULL : &wait, NULL);
    Py_END_ALLOW_THREADS
    if (ready < 0 && errno != EINTR) {
        PyErr_SetFromErrno(PyExc_OSError);
        return BROKEN;
    }
    if (ready == 0 && timeout > 0.0) {
        double late = monotonic() - now - timeout;
        self->overshoot_s += 0.05 * (fmin(late, MOST_OVERSHOOT_S) - self->overshoot_s);
    }
    return ready > 0 && both[1].revents != 0;
}

static PyObject *other_request(const Loop *self, size_t length) {
    size_t fixed = length < sizeof self->request ? length : sizeof self->request;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (bytes == NULL)
        return NULL;
    memcpy(PyBytes_AS_STRING(bytes), &self->request, fixed);
    memcpy(PyBytes_AS_STRING(bytes) + fixed, self->data, length - fixed);
    return Py_BuildValue("(sN)", "request", bytes);
}

static PyObject *loop_serve(Loop *self, PyObject *time) {
    double until;
    if (!as_time(time, &until))
        return NULL;
    struct pollfd control = {.fd = self->control, .events = POLLIN};
    if (poll(&control, 1, 0) > 0)
        return event("message");
    while (PyErr_CheckSignals() == 0) {
        int taken;
        size_t length;
        int other = take_requests(self, &taken, &length);
        if (other == BROKEN)
            return NULL;
        if (other == END)
            return event("end");
        if (other == REQUEST)
            return other_request(self, length);
        int given = answer_due(self);
        if (given == BROKEN)
            return NULL;
        double now = monotonic();
        if (now >= until || (isinf(until) && taken))
            return event("time");
        if (taken || given)
            continue;
        int message = wait_until(self, now, fmin(until, next_event(self->pacer)));
        if (message == BROKEN)
            return NULL;
        if (message)
            return event("message");
    }
    return NULL;
}

static PyObject *loop_answer(Loop *self, PyObject *found) {
    Request request;
    if (!from_answer(self->pacer, found, &request))
        return NULL;
    if (request.size < 0 || (size_t)request.size > self->largest)
        return PyErr_Format(PyExc_ValueError, "an answer of %lld bytes", (long long)request.size);
    if (!answer(self, &request))
        return NULL;
    if (request.volume == NULL)
        return PyErr_Format(PyExc_KeyError, "the request's volume was removed");
    Py_RETURN_NONE;
}

static PyObject *loop_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
    Pacer *pacer;
    int device, control;
    Py_ssize_t largest;
    if (!PyArg_ParseTuple(args, "O!iin", &PacerType, &pacer, &device, &control, &largest))
        return NULL;
    void *data = NULL;
    if (largest <= 0 || posix_memalign(&data, 4096, (size_t)largest) != 0)
        return PyErr_NoMemory();
    Loop *self = (Loop *)type->tp_alloc(type, 0);
    if (self == NULL) {
        free(data);
        return NULL;
    }
    Py_INCREF(pacer);
    self->pacer = pacer;
    self->device = device;
    self->control = control;
    self->data = data;
    self->largest = (size_t)largest;
    return (PyObject *)self;
}

static void loop_dealloc(Loop *self) {
    Py_XDECREF(self->pacer);
    free(self->data);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef loop_methods[] = {
    METHOD("serve", loop_serve, METH_O),
    METHOD("answer", loop_answer, METH_O),
    {NULL, NULL, 0, NULL},
};

static PyTypeObject LoopType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pytest_cloudbench.twin.volumes.core.RequestLoop",
    .tp_basicsize = sizeof(Loop),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = loop_new,
    .tp_dealloc = (destructor)loop_dealloc,
    .tp_methods = loop_methods,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "core", .m_size = -1};

PyMODINIT_FUNC PyInit_core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddType(module, &PacerType) < 0 || PyModule_AddType(module, &LoopType) < 0 ||
        PyModule_AddIntConstant(module, "SOURCE", SOURCE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
