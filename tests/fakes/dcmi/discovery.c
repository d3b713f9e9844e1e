/* What DCMI says about cards and chips. */
#include "dcmi.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CARDS 64
#define NUMBER(name) get_number(-1, "chip.%d." name, chip)
/* A value that the state does not have is one that this driver does not tell. */
#define NEEDS(name) \
    if (get("chip.%d." name, chip) == NULL) \
        return leave(NOT_SUPPORTED)

const char *const STATE_VARIABLE = "FAKE_DCMI";
const char *const CARD_KEY = "chip";

int chip_at(int card, int device) {
    return card < 0 || card >= MOST_CARDS || device < 0 || device >= CHIPS_OF_A_CARD ? -1
                                                                                    : card * CHIPS_OF_A_CARD + device;
}

static int is_there(int card, int device) {
    return get("chip.%d.physical", chip_at(card, device)) != NULL;
}

static void copy(char *target, size_t size, const char *text) {
    snprintf(target, size, "%s", text ? text : "");
}

int dcmi_init(void) {
    ENTER(-1);
    return leave(OK);
}

int dcmi_get_driver_version(char *version, unsigned int size) {
    ENTER(-1);
    const char *driver = get("driver");
    if (driver == NULL)
        return leave(NOT_SUPPORTED);
    copy(version, size, driver);
    return leave(OK);
}

int dcmi_get_card_list(int *count, int *cards, int size) {
    ENTER(-1);
    *count = 0;
    for (int card = 0; card < MOST_CARDS; card++)
        if (*count < size && (is_there(card, 0) || is_there(card, 1)))
            cards[(*count)++] = card;
    return leave(OK);
}

int dcmi_get_device_id_in_card(int card, int *npus, int *mcu, int *cpu) {
    ENTER(-1);
    *npus = is_there(card, 0) + is_there(card, 1);
    *mcu = *npus;
    *cpu = -1;
    return leave(*npus ? OK : NO_DEVICE);
}

int dcmi_get_device_logic_id(int *logical, int card, int device) {
    CHIP(card, device);
    *logical = chip;
    return leave(OK);
}

int dcmi_get_device_phyid_from_logicid(unsigned int logical, unsigned int *physical) {
    int chip = (int)logical;
    ENTER(chip);
    if (get("chip.%d.physical", chip) == NULL)
        return leave(NO_DEVICE);
    *physical = (unsigned int)NUMBER("physical");
    return leave(OK);
}

static void chip_info(int chip, struct dcmi_chip_info *info) {
    memset(info, 0, sizeof *info);
    copy(info->chip_type, NAME, "Ascend");
    copy(info->chip_name, NAME, get("chip.%d.name", chip));
    copy(info->chip_ver, NAME, "V1");
    info->aicore_cnt = (unsigned int)get_number(0, "chip.%d.aicore", chip);
}

int dcmi_get_device_chip_info(int card, int device, struct dcmi_chip_info *info) {
    CHIP(card, device);
    chip_info(chip, info);
    return leave(OK);
}

int dcmi_get_device_chip_info_v2(int card, int device, struct dcmi_chip_info_v2 *info) {
    CHIP(card, device);
    chip_info(chip, &info->base);
    copy(info->npu_name, NAME, get("chip.%d.name", chip));
    return leave(OK);
}

int dcmi_get_device_board_info(int card, int device, struct dcmi_board_info *info) {
    CHIP(card, device);
    NEEDS("board");
    *info = (struct dcmi_board_info){.board_id = (unsigned int)NUMBER("board")};
    return leave(OK);
}

int dcmi_get_device_die_v2(int card, int device, int type, struct dcmi_die_id *die) {
    CHIP(card, device);
    const char *text = get("chip.%d.vdie", chip);
    if (type != 1 || text == NULL)
        return leave(INVALID_PARAMETER);
    unsigned int *part = die->soc_die;
    sscanf(text, "%8x-%8x-%8x-%8x-%8x", part, part + 1, part + 2, part + 3, part + 4);
    return leave(OK);
}

int dcmi_get_topo_info_by_device_id(int card, int device, int other_card, int other_device, int *topology) {
    CHIP(card, device);
    int other = chip_at(other_card, other_device);
    if (get("chip.%d.topo.%d", chip, other) == NULL)
        return leave(NOT_SUPPORTED);
    *topology = (int)get_number(0, "chip.%d.topo.%d", chip, other);
    return leave(OK);
}

int dcmi_get_device_pcie_info_v2(int card, int device, struct dcmi_pcie_info_all *info) {
    CHIP(card, device);
    NEEDS("pci");
    memset(info, 0, sizeof *info);
    sscanf(get("chip.%d.pci", chip), "%x:%x:%x.%x", (unsigned int *)&info->domain, &info->bdf_busid,
           &info->bdf_deviceid, &info->bdf_funcid);
    return leave(OK);
}

int dcmi_get_device_hbm_info(int card, int device, struct dcmi_hbm_info *info) {
    CHIP(card, device);
    NEEDS("hbm");
    *info = (struct dcmi_hbm_info){
        .memory_size = (unsigned long long)NUMBER("hbm"),
        .memory_usage = (unsigned long long)get_number(0, "chip.%d.used", chip),
    };
    return leave(OK);
}

int dcmi_get_device_memory_info_v3(int card, int device, struct dcmi_get_memory_info_stru *info) {
    CHIP(card, device);
    NEEDS("ddr");
    *info = (struct dcmi_get_memory_info_stru){
        .memory_size = (unsigned long long)NUMBER("ddr"),
        .memory_available = (unsigned long long)(NUMBER("ddr") - get_number(0, "chip.%d.used", chip)),
    };
    return leave(OK);
}

/* Of the AI cores, in per cent. */
int dcmi_get_device_utilization_rate(int card, int device, int type, unsigned int *rate) {
    CHIP(card, device);
    if (type != 2)
        return leave(INVALID_PARAMETER);
    NEEDS("utilization");
    *rate = (unsigned int)NUMBER("utilization");
    return leave(OK);
}

int dcmi_get_device_temperature(int card, int device, int *degrees) {
    CHIP(card, device);
    NEEDS("temperature");
    *degrees = (int)NUMBER("temperature");
    return leave(OK);
}

/* Tenths of a watt. */
int dcmi_get_device_power_info(int card, int device, int *power) {
    CHIP(card, device);
    NEEDS("power");
    *power = (int)NUMBER("power");
    return leave(OK);
}

int dcmi_get_multi_die_policy(int *policy) {
    ENTER(-1);
    *policy = (int)get_number(0, "independent");
    return leave(OK);
}

int dcmi_get_vdevice_mode(int *mode) {
    ENTER(-1);
    *mode = (int)get_number(0, "machines");
    return leave(OK);
}

int dcmi_get_npu_work_mode(int card, unsigned char *mode) {
    ENTER(-1);
    if (card < 0 || get("symmetric") == NULL)
        return leave(NOT_SUPPORTED);
    *mode = (unsigned char)get_number(0, "symmetric");
    return leave(OK);
}

int dcmi_get_device_share_enable(int card, int device, int *enabled) {
    CHIP(card, device);
    NEEDS("shared");
    *enabled = (int)NUMBER("shared");
    return leave(OK);
}

int dcmi_get_device_health(int card, int device, unsigned int *level) {
    CHIP(card, device);
    NEEDS("alarm");
    *level = (unsigned int)get_number(0, "chip.%d.alarm", chip);
    return leave(OK);
}

int dcmi_get_device_errorcode_v2(int card, int device, int *count, unsigned int *codes, unsigned int size) {
    CHIP(card, device);
    int faults[128];
    *count = numbers_below(key("chip.%d.event.", chip), faults, (int)size);
    for (int i = 0; i < *count; i++)
        codes[i] = (unsigned int)get_number(0, "chip.%d.event.%d", chip, faults[i]);
    return leave(OK);
}

int dcmi_get_device_current_fault_event(int card, int device, struct dcmi_event *events, int size, int *count) {
    CHIP(card, device);
    int faults[128];
    *count = numbers_below(key("chip.%d.event.", chip), faults, size);
    for (int i = 0; i < *count; i++) {
        char *rest;
        memset(&events[i], 0, sizeof events[i]);
        /* "code severity name" */
        events[i].event_t.dms_event.event_id =
            (unsigned int)strtoul(get("chip.%d.event.%d", chip, faults[i]), &rest, 0);
        events[i].event_t.dms_event.severity = (unsigned char)strtoul(rest, &rest, 0);
        copy(events[i].event_t.dms_event.event_name, 256, rest + (*rest == ' '));
    }
    return leave(OK);
}
