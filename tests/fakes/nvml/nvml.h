/* The part of NVML's C ABI that the fake library has: codes and structures, with their published layout. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    IN_USE = 19,
    INSUFFICIENT_RESOURCES = 23,
    VERSION_MISMATCH = 25,
};

typedef void *Handle;

typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} PciInfo;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} MemoryV2;

typedef struct {
    unsigned gpu, memory;
} Utilization;

typedef struct {
    unsigned char cluster[16];
    unsigned status, clique, state;
} FabricInfo;

typedef struct {
    unsigned version;
    FabricInfo info;
    unsigned health;
} FabricInfoV2;

typedef struct {
    unsigned id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    unsigned long long memory_mib;
} GpuProfile;

typedef struct {
    unsigned version;
    unsigned id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    unsigned long long memory_mib;
    char name[96];
} GpuProfileV2;

typedef struct {
    unsigned start, size;
} Placement;

typedef struct {
    Handle device;
    unsigned id, profile;
    Placement placement;
} GpuInstanceInfo;

typedef struct {
    unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
} ComputeProfile;

typedef struct {
    Handle device, gpu_instance;
    unsigned id, profile;
    Placement placement;
} ComputeInstanceInfo;

typedef struct {
    Handle device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} EventData;

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned value_type, code;
    union {
        double number;
        unsigned value;
        unsigned long long long_value;
    } value;
} FieldValue;

/* Handles say what they stand for, so that they need no table: card + 1, and ids of instances + 1 above it. */
Handle card_handle(int card);
Handle instance_handle(int card, int gpu_instance, int compute_instance);
int card_of(Handle handle);
int gpu_instance_of(Handle handle);
int compute_instance_of(Handle handle);

#endif
