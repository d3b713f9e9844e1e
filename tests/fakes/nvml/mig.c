/* The calls about MIG. A profile is "id slices instances multiprocessors copy decoders encoders jpegs ofas memory size
 * starts", with its name in a key below it. */
#include "nvml.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PROFILES 32
#define MOST_INSTANCES 16

typedef struct {
    GpuProfile info;
    unsigned size;
    unsigned starts[MOST_INSTANCES];
    int start_count;
} Profile;

typedef struct {
    unsigned profile;
    Placement placement;
} Instance;

static int parse_profile(int card, int index, Profile *profile) {
    const char *value = get("gpu.%d.profile.%d", card, index);
    char starts[64];
    GpuProfile *info = &profile->info;
    memset(profile, 0, sizeof *profile);
    if (value == NULL)
        return 0;
    sscanf(value, "%u %u %u %u %u %u %u %u %u %llu %u %63s", &info->id, &info->slices, &info->instances,
           &info->multiprocessors, &info->copy_engines, &info->decoders, &info->encoders, &info->jpegs, &info->ofas,
           &info->memory_mib, &profile->size, starts);
    for (char *part = strtok(starts, ","); part && profile->start_count < MOST_INSTANCES; part = strtok(NULL, ","))
        profile->starts[profile->start_count++] = (unsigned)atoi(part);
    return 1;
}

static int profile_of_id(int card, unsigned id, Profile *profile) {
    for (int index = 0; index < MOST_PROFILES; index++)
        if (parse_profile(card, index, profile) && profile->info.id == id)
            return 1;
    return 0;
}

static int instance_of(int card, int id, Instance *instance) {
    const char *value = get("gpu.%d.gi.%d", card, id);
    return value && sscanf(value, "%u %u %u", &instance->profile, &instance->placement.start, &instance->placement.size) == 3;
}

static int gpu_instances(int card, int *ids) {
    return numbers_below(key("gpu.%d.gi.", card), ids, MOST_INSTANCES);
}

static int compute_instances(int card, int gpu_instance, int *ids) {
    return numbers_below(key("gpu.%d.gi.%d.ci.", card, gpu_instance), ids, MOST_INSTANCES);
}

static int mode_of(int card, unsigned *current, unsigned *pending) {
    const char *value = get("gpu.%d.mig", card);
    return value && sscanf(value, "%u %u", current, pending) == 2;
}

static int is_off(int card) {
    unsigned current = 0, pending;
    return !mode_of(card, &current, &pending) || current == 0;
}

int nvmlDeviceGetMigMode(Handle device, unsigned *current, unsigned *pending) {
    int card = card_of(device);
    ENTER(card);
    return leave(mode_of(card, current, pending) ? SUCCESS : NOT_SUPPORTED);
}

/* Where the state says that a reset is needed, the mode stays pending. Instances keep it from being turned off. */
int nvmlDeviceSetMigMode(Handle device, unsigned mode, int *activation) {
    int card = card_of(device), ids[MOST_INSTANCES];
    unsigned current, pending;
    ENTER(card);
    *activation = SUCCESS;
    if (!mode_of(card, &current, &pending))
        return leave(NOT_SUPPORTED);
    if (gpu_instances(card, ids) > 0 && mode == 0)
        return leave(IN_USE);
    if (get("gpu.%d.busy", card) && mode != current) {
        *activation = IN_USE;
        return leave(SUCCESS);
    }
    if (get("gpu.%d.mig.reset", card) && mode != current) {
        *activation = RESET_REQUIRED;
        set(key("gpu.%d.mig", card), "%u %u", current, mode);
        return leave(SUCCESS);
    }
    set(key("gpu.%d.mig", card), "%u %u", mode, mode);
    return leave(SUCCESS);
}

int nvmlDeviceGetGpuInstanceProfileInfo(Handle device, unsigned index, GpuProfile *info) {
    int card = card_of(device);
    Profile profile;
    ENTER(card);
    if (!parse_profile(card, (int)index, &profile))
        return leave(NOT_SUPPORTED);
    *info = profile.info;
    return leave(SUCCESS);
}

int nvmlDeviceGetGpuInstanceProfileInfoV(Handle device, unsigned index, GpuProfileV2 *info) {
    int card = card_of(device);
    Profile profile;
    ENTER(card);
    if ((info->version & 0xffffff) != sizeof *info)
        return leave(VERSION_MISMATCH);
    if (!parse_profile(card, (int)index, &profile))
        return leave(NOT_SUPPORTED);
    const char *name = get("gpu.%d.profile.%d.name", card, (int)index);
    memset(info->name, 0, sizeof info->name);
    info->id = profile.info.id;
    info->p2p = profile.info.p2p;
    info->slices = profile.info.slices;
    info->instances = profile.info.instances;
    info->multiprocessors = profile.info.multiprocessors;
    info->copy_engines = profile.info.copy_engines;
    info->decoders = profile.info.decoders;
    info->encoders = profile.info.encoders;
    info->jpegs = profile.info.jpegs;
    info->ofas = profile.info.ofas;
    info->memory_mib = profile.info.memory_mib;
    snprintf(info->name, sizeof info->name, "%s", name ? name : "");
    return leave(SUCCESS);
}

/* As the library: without an array, only the number of placements. */
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Handle device, unsigned id, Placement *placements, unsigned *count) {
    int card = card_of(device);
    Profile profile;
    ENTER(card);
    if (is_off(card) && get("gpu.%d.placements.needmig", card))
        return leave(NOT_SUPPORTED);
    if (!profile_of_id(card, id, &profile))
        return leave(INVALID_ARGUMENT);
    if (placements != NULL) {
        if (*count < (unsigned)profile.start_count)
            return leave(INSUFFICIENT_SIZE);
        for (int i = 0; i < profile.start_count; i++)
            placements[i] = (Placement){profile.starts[i], profile.size};
    }
    *count = (unsigned)profile.start_count;
    return leave(SUCCESS);
}

/* What a profile takes of the card: compute slices, and engines of six kinds. */
#define KINDS 7

static void amounts_of(const GpuProfile *info, unsigned amounts[KINDS]) {
    const unsigned all[KINDS] = {info->slices, info->multiprocessors, info->copy_engines, info->decoders,
                                 info->encoders, info->jpegs, info->ofas};
    memcpy(amounts, all, sizeof all);
}

/* What the card has: as much as the profile that takes all of it. */
static void capacity_of(int card, unsigned most[KINDS]) {
    unsigned amounts[KINDS];
    Profile profile;
    memset(most, 0, KINDS * sizeof *most);
    for (int index = 0; index < MOST_PROFILES; index++) {
        if (!parse_profile(card, index, &profile))
            continue;
        amounts_of(&profile.info, amounts);
        for (int kind = 0; kind < KINDS; kind++)
            most[kind] = amounts[kind] > most[kind] ? amounts[kind] : most[kind];
    }
}

/* Whether another instance fits: its memory slices are free, and so is the rest that it takes. */
static int has_room(int card, const Profile *wanted, Placement place) {
    int ids[MOST_INSTANCES], count = gpu_instances(card, ids);
    unsigned used[KINDS], most[KINDS], amounts[KINDS], same = 1;
    amounts_of(&wanted->info, used);
    capacity_of(card, most);
    for (int i = 0; i < count; i++) {
        Instance other;
        Profile profile;
        if (!instance_of(card, ids[i], &other) || !profile_of_id(card, other.profile, &profile))
            continue;
        if (place.start < other.placement.start + other.placement.size && other.placement.start < place.start + place.size)
            return 0;
        amounts_of(&profile.info, amounts);
        for (int kind = 0; kind < KINDS; kind++)
            used[kind] += amounts[kind];
        same += other.profile == wanted->info.id;
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (used[kind] > most[kind])
            return 0;
    return same <= wanted->info.instances;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(Handle device, unsigned id, const Placement *place, Handle *instance) {
    int card = card_of(device), possible = 0, number = 1;
    Profile profile;
    ENTER(card);
    if (is_off(card))
        return leave(NOT_SUPPORTED);
    if (!profile_of_id(card, id, &profile))
        return leave(INVALID_ARGUMENT);
    for (int i = 0; i < profile.start_count; i++)
        possible |= profile.starts[i] == place->start && profile.size == place->size;
    if (!possible)
        return leave(INVALID_ARGUMENT);
    if (!has_room(card, &profile, *place))
        return leave(INSUFFICIENT_RESOURCES);
    while (get("gpu.%d.gi.%d", card, number))
        number++;
    set(key("gpu.%d.gi.%d", card, number), "%u %u %u", id, place->start, place->size);
    *instance = instance_handle(card, number, -1);
    return leave(SUCCESS);
}

int nvmlDeviceGetGpuInstances(Handle device, unsigned id, Handle *instances, unsigned *count) {
    int card = card_of(device), ids[MOST_INSTANCES];
    unsigned found = 0;
    ENTER(card);
    if (is_off(card))
        return leave(NOT_SUPPORTED);
    int total = gpu_instances(card, ids);
    for (int i = 0; i < total; i++) {
        Instance instance;
        if (instance_of(card, ids[i], &instance) && instance.profile == id)
            instances[found++] = instance_handle(card, ids[i], -1);
    }
    *count = found;
    return leave(SUCCESS);
}

int nvmlDeviceGetGpuInstanceById(Handle device, unsigned id, Handle *instance) {
    int card = card_of(device);
    ENTER(card);
    if (is_off(card))
        return leave(NOT_SUPPORTED);
    if (get("gpu.%d.gi.%u", card, id) == NULL)
        return leave(NOT_FOUND);
    *instance = instance_handle(card, (int)id, -1);
    return leave(SUCCESS);
}

int nvmlGpuInstanceGetInfo(Handle instance, GpuInstanceInfo *info) {
    int card = card_of(instance), number = gpu_instance_of(instance);
    Instance known;
    ENTER(card);
    if (!instance_of(card, number, &known))
        return leave(NOT_FOUND);
    *info = (GpuInstanceInfo){card_handle(card), (unsigned)number, known.profile, known.placement};
    return leave(SUCCESS);
}

int nvmlGpuInstanceDestroy(Handle instance) {
    int card = card_of(instance), number = gpu_instance_of(instance), ids[MOST_INSTANCES];
    ENTER(card);
    if (get("gpu.%d.gi.%d", card, number) == NULL)
        return leave(NOT_FOUND);
    if (compute_instances(card, number, ids) > 0)
        return leave(IN_USE);
    drop(key("gpu.%d.gi.%d", card, number));
    return leave(SUCCESS);
}

static int slices_of(int card, int gpu_instance, unsigned *slices) {
    Instance instance;
    Profile profile;
    if (!instance_of(card, gpu_instance, &instance) || !profile_of_id(card, instance.profile, &profile))
        return 0;
    *slices = profile.info.slices;
    return 1;
}

/* A compute instance profile is a number of slices; its id is its index in NVML's numbering. */
int nvmlGpuInstanceGetComputeInstanceProfileInfo(Handle instance, unsigned index, unsigned engine, ComputeProfile *info) {
    static const unsigned sizes[] = {1, 2, 3, 4, 7, 8, 6, 1};
    int card = card_of(instance);
    unsigned slices;
    (void)engine;
    ENTER(card);
    if (!slices_of(card, gpu_instance_of(instance), &slices))
        return leave(NOT_FOUND);
    if (index > 6 || sizes[index] > slices)
        return leave(NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    *info = (ComputeProfile){.id = index, .slices = sizes[index], .instances = slices / sizes[index]};
    return leave(SUCCESS);
}

int nvmlGpuInstanceCreateComputeInstance(Handle instance, unsigned profile, Handle *compute) {
    static const unsigned sizes[] = {1, 2, 3, 4, 7, 8, 6, 1};
    int card = card_of(instance), gpu = gpu_instance_of(instance), ids[MOST_INSTANCES], number = 0;
    unsigned slices, used = 0;
    ENTER(card);
    if (profile > 6 || !slices_of(card, gpu, &slices))
        return leave(INVALID_ARGUMENT);
    int count = compute_instances(card, gpu, ids);
    for (int i = 0; i < count; i++)
        used += sizes[get_number(0, "gpu.%d.gi.%d.ci.%d", card, gpu, ids[i])];
    if (used + sizes[profile] > slices)
        return leave(INSUFFICIENT_RESOURCES);
    while (get("gpu.%d.gi.%d.ci.%d", card, gpu, number))
        number++;
    set(key("gpu.%d.gi.%d.ci.%d", card, gpu, number), "%u", profile);
    *compute = instance_handle(card, gpu, number);
    return leave(SUCCESS);
}

int nvmlGpuInstanceGetComputeInstances(Handle instance, unsigned profile, Handle *instances, unsigned *count) {
    int card = card_of(instance), gpu = gpu_instance_of(instance), ids[MOST_INSTANCES];
    unsigned found = 0;
    ENTER(card);
    int total = compute_instances(card, gpu, ids);
    for (int i = 0; i < total; i++)
        if ((unsigned)get_number(-1, "gpu.%d.gi.%d.ci.%d", card, gpu, ids[i]) == profile)
            instances[found++] = instance_handle(card, gpu, ids[i]);
    *count = found;
    return leave(SUCCESS);
}

int nvmlGpuInstanceGetComputeInstanceById(Handle instance, unsigned id, Handle *compute) {
    int card = card_of(instance), gpu = gpu_instance_of(instance);
    ENTER(card);
    if (get("gpu.%d.gi.%d.ci.%u", card, gpu, id) == NULL)
        return leave(NOT_FOUND);
    *compute = instance_handle(card, gpu, (int)id);
    return leave(SUCCESS);
}

/* `device` is the handle of the MIG device, as with the library. */
int nvmlComputeInstanceGetInfo_v2(Handle compute, ComputeInstanceInfo *info) {
    int card = card_of(compute), gpu = gpu_instance_of(compute), number = compute_instance_of(compute);
    ENTER(card);
    if (get("gpu.%d.gi.%d.ci.%d", card, gpu, number) == NULL)
        return leave(NOT_FOUND);
    unsigned profile = (unsigned)get_number(0, "gpu.%d.gi.%d.ci.%d", card, gpu, number);
    *info = (ComputeInstanceInfo){instance_handle(card, gpu, number), instance_handle(card, gpu, -1), (unsigned)number, profile, {0, 0}};
    return leave(SUCCESS);
}

int nvmlComputeInstanceDestroy(Handle compute) {
    int card = card_of(compute), gpu = gpu_instance_of(compute), number = compute_instance_of(compute);
    ENTER(card);
    if (get("gpu.%d.gi.%d.ci.%d", card, gpu, number) == NULL)
        return leave(NOT_FOUND);
    if (get("gpu.%d.gi.%d.ci.%d.busy", card, gpu, number))
        return leave(IN_USE);
    drop(key("gpu.%d.gi.%d.ci.%d", card, gpu, number));
    return leave(SUCCESS);
}
