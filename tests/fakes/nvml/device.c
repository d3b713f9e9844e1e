/* The calls that read the system and its cards, and the events. A key that is missing is a value the driver lacks. */
#include "nvml.h"
#include "state.h"

#include <stdio.h>
#include <string.h>

const char *const STATE_VARIABLE = "FAKE_NVML";
const char *const CARD_KEY = "gpu";

Handle instance_handle(int card, int gpu_instance, int compute_instance) {
    unsigned long number = (unsigned long)(card + 1) << 32;
    return (Handle)(number | (unsigned long)(gpu_instance + 1) << 16 | (unsigned long)(compute_instance + 1));
}

Handle card_handle(int card) {
    return instance_handle(card, -1, -1);
}

int card_of(Handle handle) {
    return (int)((unsigned long)handle >> 32) - 1;
}

int gpu_instance_of(Handle handle) {
    return (int)((unsigned long)handle >> 16 & 0xffff) - 1;
}

int compute_instance_of(Handle handle) {
    return (int)((unsigned long)handle & 0xffff) - 1;
}

static int text_of(const char *value, char *text, unsigned length) {
    if (value == NULL)
        return leave(NOT_SUPPORTED);
    if (strlen(value) >= length)
        return leave(INSUFFICIENT_SIZE);
    strcpy(text, value);
    return leave(SUCCESS);
}

static int number_of(const char *value, unsigned *number) {
    if (value == NULL)
        return leave(NOT_SUPPORTED);
    return leave(sscanf(value, "%u", number) == 1 ? SUCCESS : 999);
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(-1);
    return leave(SUCCESS);
}

int nvmlShutdown(void) {
    ENTER(-1);
    return leave(SUCCESS);
}

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "error %d of the fake", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    ENTER(-1);
    return text_of(get("driver"), version, length);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    ENTER(-1);
    return number_of(get("cuda"), (unsigned *)version);
}

int nvmlDeviceGetCount_v2(unsigned *number) {
    ENTER(-1);
    return number_of(get("gpus"), number);
}

/* A card's index is its place in the order of enumeration, which need not be that of minor numbers. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *device) {
    ENTER((int)index);
    if ((long long)index >= get_number(0, "gpus"))
        return leave(INVALID_ARGUMENT);
    *device = card_handle((int)index);
    return leave(SUCCESS);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *device) {
    ENTER(-1);
    int cards = (int)get_number(0, "gpus");
    for (int card = 0; card < cards; card++) {
        const char *known = get("gpu.%d.uuid", card);
        if (known != NULL && strcmp(known, uuid) == 0) {
            *device = card_handle(card);
            /* As nvml.h allows: lost "if any GPU has fallen off the bus". */
            for (int other = 0; other < cards; other++)
                if (get("uuid.any") != NULL && get_number(SUCCESS, "gpu.%d.fault", other) == GPU_IS_LOST)
                    return leave(GPU_IS_LOST);
            return leave((int)get_number(SUCCESS, "gpu.%d.fault", card));
        }
    }
    return leave(NOT_FOUND);
}

int nvmlDeviceGetName(Handle device, char *name, unsigned length) {
    int card = card_of(device);
    ENTER(card);
    return text_of(get("gpu.%d.name", card), name, length);
}

/* Of a MIG device: derived from the numbers that name it, so that it is the same after it was created again. */
int nvmlDeviceGetUUID(Handle device, char *uuid, unsigned length) {
    int card = card_of(device), gpu = gpu_instance_of(device), compute = compute_instance_of(device);
    ENTER(card);
    if (gpu < 0)
        return text_of(get("gpu.%d.uuid", card), uuid, length);
    char text[64];
    snprintf(text, sizeof text, "MIG-%08x-%04x-5000-8000-%012x", (unsigned)card, (unsigned)gpu, (unsigned)compute);
    return text_of(text, uuid, length);
}

int nvmlDeviceGetMinorNumber(Handle device, unsigned *minor) {
    int card = card_of(device);
    ENTER(card);
    return number_of(get("gpu.%d.minor", card), minor);
}

int nvmlDeviceGetIndex(Handle device, unsigned *index) {
    int card = card_of(device);
    ENTER(card);
    *index = (unsigned)card;
    return leave(SUCCESS);
}

static int pci_of(const char *bus_id, PciInfo *info) {
    if (bus_id == NULL)
        return leave(NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    sscanf(bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", info->domain, info->bus, info->device);
    snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "%.15s", bus_id);
    return leave(SUCCESS);
}

int nvmlDeviceGetPciInfo_v3(Handle device, PciInfo *info) {
    int card = card_of(device);
    ENTER(card);
    return pci_of(get("gpu.%d.pci", card), info);
}

int nvmlDeviceGetMemoryInfo(Handle device, Memory *memory) {
    int card = card_of(device);
    ENTER(card);
    memory->total = (unsigned long long)get_number(-1, "gpu.%d.memory", card);
    memory->used = (unsigned long long)get_number(0, "gpu.%d.memory.used", card);
    memory->free = memory->total - memory->used;
    return leave(get("gpu.%d.memory", card) ? SUCCESS : NOT_SUPPORTED);
}

/* "memory.used" has what the driver keeps for itself, too, which "memory.reserved" says. */
int nvmlDeviceGetMemoryInfo_v2(Handle device, MemoryV2 *memory) {
    int card = card_of(device);
    ENTER(card);
    if ((memory->version & 0xffffff) != sizeof *memory)
        return leave(VERSION_MISMATCH);
    memory->total = (unsigned long long)get_number(-1, "gpu.%d.memory", card);
    memory->reserved = (unsigned long long)get_number(0, "gpu.%d.memory.reserved", card);
    memory->used = (unsigned long long)get_number(0, "gpu.%d.memory.used", card) - memory->reserved;
    memory->free = memory->total - memory->used - memory->reserved;
    return leave(get("gpu.%d.memory", card) ? SUCCESS : NOT_SUPPORTED);
}

/* A card in MIG mode has no utilization, as the real library says it. */
int nvmlDeviceGetUtilizationRates(Handle device, Utilization *rates) {
    int card = card_of(device), mode = 0;
    ENTER(card);
    const char *modes = get("gpu.%d.mig", card);
    rates->memory = 0;
    if (modes != NULL && sscanf(modes, "%d", &mode) == 1 && mode)
        return leave(NOT_SUPPORTED);
    return number_of(get("gpu.%d.utilization", card), &rates->gpu);
}

int nvmlDeviceGetTemperature(Handle device, unsigned sensor, unsigned *degrees) {
    int card = card_of(device);
    ENTER(card);
    if (sensor != 0)
        return leave(INVALID_ARGUMENT);
    return number_of(get("gpu.%d.temperature", card), degrees);
}

/* Milliwatts. */
int nvmlDeviceGetPowerUsage(Handle device, unsigned *power) {
    int card = card_of(device);
    ENTER(card);
    return number_of(get("gpu.%d.power", card), power);
}

int nvmlDeviceGetArchitecture(Handle device, unsigned *architecture) {
    int card = card_of(device);
    ENTER(card);
    return number_of(get("gpu.%d.architecture", card), architecture);
}

int nvmlDeviceGetCudaComputeCapability(Handle device, int *major, int *minor) {
    int card = card_of(device);
    ENTER(card);
    const char *value = get("gpu.%d.capability", card);
    return leave(value && sscanf(value, "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED);
}

int nvmlDeviceGetNvLinkState(Handle device, unsigned link, unsigned *active) {
    int card = card_of(device);
    ENTER(card);
    return number_of(get("gpu.%d.nvlink.%u.state", card, link), active);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle device, unsigned link, PciInfo *info) {
    int card = card_of(device);
    ENTER(card);
    return pci_of(get("gpu.%d.nvlink.%u.peer", card, link), info);
}

static int fabric_of(int card, FabricInfo *info) {
    const char *value = get("gpu.%d.fabric", card);
    char digits[33];
    if (value == NULL || sscanf(value, "%32s %u %u", digits, &info->clique, &info->state) != 3)
        return leave(NOT_SUPPORTED);
    info->status = SUCCESS;
    for (int i = 0; i < 16; i++)
        sscanf(digits + 2 * i, "%2hhx", &info->cluster[i]);
    return leave(SUCCESS);
}

int nvmlDeviceGetGpuFabricInfo(Handle device, FabricInfo *info) {
    int card = card_of(device);
    ENTER(card);
    return fabric_of(card, info);
}

int nvmlDeviceGetGpuFabricInfoV(Handle device, FabricInfoV2 *info) {
    int card = card_of(device);
    ENTER(card);
    if ((info->version & 0xffffff) != sizeof *info)
        return leave(VERSION_MISMATCH);
    info->health = 0;
    return fabric_of(card, &info->info);
}

int nvmlDeviceGetComputeMode(Handle device, unsigned *mode) {
    int card = card_of(device);
    ENTER(card);
    return number_of(get("gpu.%d.computemode", card), mode);
}

int nvmlDeviceSetComputeMode(Handle device, unsigned mode) {
    int card = card_of(device);
    ENTER(card);
    if (get("gpu.%d.computemode", card) == NULL)
        return leave(NOT_SUPPORTED);
    set(key("gpu.%d.computemode", card), "%u", mode);
    return leave(SUCCESS);
}

int nvmlDeviceGetFieldValues(Handle device, int count, FieldValue *values) {
    int card = card_of(device);
    ENTER(card);
    for (int i = 0; i < count; i++) {
        const char *value = get("gpu.%d.field.%u", card, values[i].field);
        values[i].code = value ? SUCCESS : NOT_SUPPORTED;
        values[i].value_type = 1;
        values[i].value.long_value = 0;
        if (value)
            sscanf(value, "%u", &values[i].value.value);
    }
    return leave(SUCCESS);
}

int nvmlDeviceGetRemappedRows(Handle device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    int card = card_of(device);
    ENTER(card);
    const char *value = get("gpu.%d.remapped", card);
    return leave(value && sscanf(value, "%u %u %u %u", corrected, uncorrected, pending, failed) == 4 ? SUCCESS : NOT_SUPPORTED);
}

/* "retired" has the pages retired for single-bit errors, those for double-bit errors, and whether some are pending. */
static int retired_of(int card, unsigned *single, unsigned *twofold, unsigned *pending) {
    const char *value = get("gpu.%d.retired", card);
    return value && sscanf(value, "%u %u %u", single, twofold, pending) == 3 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Handle device, unsigned *pending) {
    int card = card_of(device);
    unsigned single, twofold;
    ENTER(card);
    return leave(retired_of(card, &single, &twofold, pending));
}

int nvmlDeviceGetRetiredPages(Handle device, unsigned cause, unsigned *count, unsigned long long *addresses) {
    int card = card_of(device);
    unsigned single, twofold, pending, room = *count;
    ENTER(card);
    int code = retired_of(card, &single, &twofold, &pending);
    if (code != SUCCESS)
        return leave(code);
    *count = cause == 0 ? single : twofold;
    if (*count > room)
        return leave(INSUFFICIENT_SIZE);
    for (unsigned i = 0; i < *count; i++)
        addresses[i] = 0x1000ull * (i + 1);
    return leave(SUCCESS);
}

int nvmlDeviceGetTotalEccErrors(Handle device, unsigned type, unsigned counter, unsigned long long *errors) {
    int card = card_of(device);
    ENTER(card);
    *errors = (unsigned long long)get_number(0, "gpu.%d.ecc.%u.%u", card, type, counter);
    return leave(get("gpu.%d.ecc.%u.%u", card, type, counter) ? SUCCESS : NOT_SUPPORTED);
}

int nvmlDeviceGetSupportedEventTypes(Handle device, unsigned long long *types) {
    int card = card_of(device);
    ENTER(card);
    *types = (unsigned long long)get_number(0, "gpu.%d.events", card);
    return leave(get("gpu.%d.events", card) ? SUCCESS : NOT_SUPPORTED);
}

/* "set.<n>" is an event set, and "set.<n>.card.<c>" a card that is registered with it. */
int nvmlDeviceRegisterEvents(Handle device, unsigned long long types, Handle event_set) {
    int card = card_of(device), number = (int)(long)event_set;
    ENTER(card);
    if (get("set.%d", number) == NULL)
        return leave(INVALID_ARGUMENT);
    set(key("set.%d.card.%d", number, card), "%llu", types);
    return leave(SUCCESS);
}

int nvmlEventSetCreate(Handle *event_set) {
    ENTER(-1);
    int number = (int)get_number(0, "sets") + 1;
    set(key("sets"), "%d", number);
    set(key("set.%d", number), "open");
    *event_set = (Handle)(long)number;
    return leave(SUCCESS);
}

int nvmlEventSetFree(Handle event_set) {
    int number = (int)(long)event_set;
    ENTER(-1);
    int cards = (int)get_number(0, "gpus");
    if (get("set.%d", number) == NULL)
        return leave(INVALID_ARGUMENT);
    for (int card = 0; card < cards; card++)
        drop(key("set.%d.card.%d", number, card));
    drop(key("set.%d", number));
    return leave(SUCCESS);
}

enum { MOST_EVENTS = 64 };

/* The next event "card type data gi ci" of a card of the set, which is taken out. Without one it does not wait. */
int nvmlEventSetWait_v2(Handle event_set, EventData *data, unsigned milliseconds) {
    (void)milliseconds;
    int number = (int)(long)event_set, events[MOST_EVENTS];
    ENTER(-1);
    memset(data, 0, sizeof *data);
    if (get("set.%d", number) == NULL)
        return leave(INVALID_ARGUMENT);
    int count = numbers_below("event.", events, MOST_EVENTS);
    for (int i = 0; i < count; i++) {
        int card;
        sscanf(get("event.%d", events[i]), "%d %llu %llu %u %u", &card, &data->type, &data->data, &data->gpu_instance, &data->compute_instance);
        if (get("set.%d.card.%d", number, card) != NULL) {
            data->device = card_handle(card);
            drop(key("event.%d", events[i]));
            return leave(SUCCESS);
        }
    }
    int cards = (int)get_number(0, "gpus");
    for (int card = 0; card < cards; card++)
        if (get("set.%d.card.%d", number, card) != NULL && get_number(SUCCESS, "gpu.%d.fault", card) == GPU_IS_LOST)
            return leave(GPU_IS_LOST);
    return leave(TIMEOUT);
}
