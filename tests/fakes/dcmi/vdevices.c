/* vNPUs: templates, what there is, create and destroy. */
#include "dcmi.h"
#include "state.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEVICE_MAJOR 236
#define MOST_TEMPLATES 10
#define FIRST_ID 100
#define IDS_OF_A_CHIP 16
#define AMOUNTS 8

/* AI cores, AI CPUs, memory, VPC, VDEC, JPEGD, JPEGE, VENC. */
static int amounts(const char *text, int amount[AMOUNTS]) {
    memset(amount, 0, AMOUNTS * sizeof *amount);
    return text && sscanf(text, "%d %d %d %d %d %d %d %d", amount, amount + 1, amount + 2, amount + 3, amount + 4,
                          amount + 5, amount + 6, amount + 7) == AMOUNTS;
}

/* "name amounts": the amounts of the template of this name that the chip can be cut into. */
static int cut_of(int chip, const char *name, int amount[AMOUNTS]) {
    int numbers[MOST_TEMPLATES];
    int count = numbers_below(key("chip.%d.cut.", chip), numbers, MOST_TEMPLATES);
    memset(amount, 0, AMOUNTS * sizeof *amount);
    for (int i = 0; i < count; i++) {
        const char *text = get("chip.%d.cut.%d", chip, numbers[i]);
        size_t length = strcspn(text, " ");
        if (strlen(name) == length && strncmp(text, name, length) == 0)
            return amounts(text + length, amount);
    }
    return 0;
}

static int has_room(int chip, const int wanted[AMOUNTS]) {
    int total[AMOUNTS], used[AMOUNTS], ids[MOST_VDEVICES];
    if (!amounts(get("chip.%d.total", chip), total))
        return 1;
    int count = numbers_below(key("chip.%d.vdev.", chip), ids, MOST_VDEVICES);
    for (int i = 0; i < count; i++) {
        char name[VALUE_BYTES];
        sscanf(get("chip.%d.vdev.%d", chip, ids[i]), "%s", name);
        cut_of(chip, name, used);
        for (int k = 0; k < AMOUNTS; k++)
            total[k] -= used[k];
    }
    for (int k = 0; k < AMOUNTS; k++)
        if (wanted[k] > total[k])
            return 0;
    return 1;
}

static void resources(const int amount[AMOUNTS], struct dcmi_computing_resource *computing,
                      struct dcmi_media_resource *media) {
    computing->aic = (float)amount[0];
    computing->device_aicpu = (unsigned short)amount[1];
    computing->memory_size = (unsigned long long)amount[2];
    media->vpc = (float)amount[3];
    media->vdec = (float)amount[4];
    media->jpegd = (float)amount[5];
    media->jpege = (float)amount[6];
    media->venc = (float)amount[7];
    media->pngd = -1;
}

int dcmi_get_template_info_all(int card, struct dcmi_computing_template *templates, unsigned int size,
                               unsigned int *count) {
    int chip = chip_at(card, 0), numbers[MOST_TEMPLATES], amount[AMOUNTS];
    ENTER(chip);
    int found = numbers_below(key("chip.%d.template.", chip), numbers, MOST_TEMPLATES);
    if (chip < 0 || found == 0 || size < (unsigned int)found * sizeof *templates)
        return leave(NOT_SUPPORTED);
    for (int i = 0; i < found; i++) {
        const char *text = get("chip.%d.template.%d", chip, numbers[i]);
        size_t length = strcspn(text, " ");
        memset(&templates[i], 0, sizeof templates[i]);
        snprintf(templates[i].name, sizeof templates[i].name, "%.*s", (int)length, text);
        amounts(text + length, amount);
        templates[i].aicore_num = (unsigned int)amount[0];
        templates[i].aicpu_num = (float)amount[1];
        templates[i].mem_size = (unsigned int)amount[2];
        templates[i].vpc = (float)amount[3];
        templates[i].vdec = (float)amount[4];
        templates[i].jpegd = (float)amount[5];
        templates[i].jpege = (float)amount[6];
        templates[i].venc = (float)amount[7];
    }
    *count = (unsigned int)found;
    return leave(OK);
}

static int total(int chip, struct dcmi_soc_total_resource *answer) {
    int ids[MOST_VDEVICES], amount[AMOUNTS];
    int count = numbers_below(key("chip.%d.vdev.", chip), ids, MOST_VDEVICES);
    memset(answer, 0, sizeof *answer);
    answer->vdev_num = (unsigned int)count;
    for (int i = 0; i < count; i++)
        answer->vdev_id[i] = (unsigned int)ids[i];
    const char *reported = get("chip.%d.reported", chip);
    if (amounts(reported ? reported : get("chip.%d.total", chip), amount))
        resources(amount, &answer->computing, &answer->media);
    return OK;
}

static int one(int chip, struct dcmi_vdev_query_stru *answer) {
    int amount[AMOUNTS], used = 0;
    char name[VALUE_BYTES] = "";
    const char *text = get("chip.%d.vdev.%u", chip, answer->vdev_id);
    if (text == NULL)
        return INVALID_PARAMETER;
    memset(&answer->query_info, 0, sizeof answer->query_info);
    sscanf(text, "%s %d", name, &used);
    snprintf(answer->query_info.name, sizeof answer->query_info.name, "%.15s", strcmp(name, "-") ? name : "");
    answer->query_info.is_container_used = (unsigned int)used;
    if (cut_of(chip, name, amount))
        resources(amount, &answer->query_info.computing, &answer->query_info.media);
    return OK;
}

int dcmi_get_device_info(int card, int device, int command, unsigned int sub_command, void *answer,
                         unsigned int *size) {
    CHIP(card, device);
    if (command == MAIN_CHIP && sub_command == SUB_SUPER_POD && get("chip.%d.superpod", chip)) {
        struct dcmi_spod_info info = {.super_pod_id = (unsigned int)get_number(0, "chip.%d.superpod", chip)};
        if (*size < sizeof info)
            return leave(INVALID_PARAMETER);
        memcpy(answer, &info, sizeof info);
        return leave(OK);
    }
    if (command != MAIN_VDEVICES || get("chip.%d.total", chip) == NULL)
        return leave(NOT_SUPPORTED);
    if (sub_command == SUB_TOTAL)
        return leave(*size < sizeof(struct dcmi_soc_total_resource) ? INVALID_PARAMETER : total(chip, answer));
    if (sub_command == SUB_VDEVICE)
        return leave(*size < sizeof(struct dcmi_vdev_query_stru) ? INVALID_PARAMETER : one(chip, answer));
    return leave(NOT_SUPPORTED);
}

static void device_file(unsigned int id, int exists) {
    char path[VALUE_BYTES];
    const char *folder = get("dev");
    if (folder == NULL)
        return;
    snprintf(path, sizeof path, "%.200s/vdavinci%u", folder, id);
    if (exists)
        mknod(path, S_IFCHR | 0660, makedev(DEVICE_MAJOR, id));
    else
        unlink(path);
}

int dcmi_create_vdevice(int card, int device, struct dcmi_create_vdev_res_stru *wanted,
                        struct dcmi_create_vdev_out *made) {
    CHIP(card, device);
    int amount[AMOUNTS];
    unsigned int first = FIRST_ID + IDS_OF_A_CHIP * (unsigned int)get_number(0, "chip.%d.physical", chip);
    unsigned int id = wanted->vdev_id;
    for (unsigned int next = first; id == ANY_ID && next < first + IDS_OF_A_CHIP; next++)
        if (get("chip.%d.vdev.%u", chip, next) == NULL)
            id = next;
    if (id < first || id >= first + IDS_OF_A_CHIP || get("chip.%d.vdev.%u", chip, id))
        return leave(INVALID_PARAMETER);
    if (!cut_of(chip, wanted->template_name, amount))
        return leave(INVALID_PARAMETER);
    if (!has_room(chip, amount))
        return leave(INNER_ERROR);
    set(key("chip.%d.vdev.%u", chip, id), "%.31s 0", wanted->template_name);
    device_file(id, 1);
    memset(made, 0, sizeof *made);
    made->vdev_id = id;
    return leave(OK);
}

int dcmi_set_destroy_vdevice(int card, int device, unsigned int id) {
    CHIP(card, device);
    if (id == ALL_IDS) {
        drop(key("chip.%d.vdev", chip));
        return leave(OK);
    }
    const char *text = get("chip.%d.vdev.%u", chip, id);
    if (text == NULL)
        return leave(INVALID_PARAMETER);
    if (text[strcspn(text, " ")] && text[strcspn(text, " ") + 1] == '1')
        return leave(OCCUPIED);
    drop(key("chip.%d.vdev.%u", chip, id));
    device_file(id, 0);
    return leave(OK);
}
