/* The part of DCMI's interface that the fake library has, with Huawei's layouts (dcmi_interface_api.h). */
#ifndef FAKE_DCMI_H
#define FAKE_DCMI_H

enum {
    OK = 0,
    INVALID_PARAMETER = -8001,
    INNER_ERROR = -8005,
    NO_DEVICE = -8008,
    OCCUPIED = -8020,
    NOT_SUPPORTED = -8255,
};

enum { MAIN_CHIP = 12, SUB_SUPER_POD = 1, MAIN_VDEVICES = 52, SUB_VDEVICE = 0, SUB_TOTAL = 1 };

#define NAME 32
#define MOST_VDEVICES 32
#define ANY_ID 0xFFFFFFFFu
#define ALL_IDS 0xFFFFu

struct dcmi_chip_info {
    char chip_type[NAME], chip_name[NAME], chip_ver[NAME];
    unsigned int aicore_cnt;
};

struct dcmi_chip_info_v2 {
    struct dcmi_chip_info base;
    char npu_name[NAME];
};

struct dcmi_pcie_info_all {
    unsigned int venderid, subvenderid, deviceid, subdeviceid;
    int domain;
    unsigned int bdf_busid, bdf_deviceid, bdf_funcid;
    unsigned char reserve[32];
};

struct dcmi_board_info {
    unsigned int board_id, pcb_id, bom_id, slot_id;
};

struct dcmi_die_id {
    unsigned int soc_die[5];
};

struct dcmi_hbm_info {
    unsigned long long memory_size;
    unsigned int freq;
    unsigned long long memory_usage;
    int temp;
    unsigned int bandwith_util_rate;
};

struct dcmi_get_memory_info_stru {
    unsigned long long memory_size, memory_available;
    unsigned int freq;
    unsigned long hugepagesize, hugepages_total, hugepages_free;
    unsigned int utiliza;
    unsigned char reserve[60];
};

struct dcmi_base_resource {
    unsigned long long token, token_max, task_timeout;
    unsigned int vfg_id;
    unsigned char vip_mode;
    unsigned char reserved[31];
};

struct dcmi_computing_resource {
    float aic, aiv;
    unsigned short dsa, rtsq, acsq, cdqm, c_core, ffts, sdma, pcie_dma;
    unsigned long long memory_size;
    unsigned int event_id, notify_id, stream_id, model_id;
    unsigned short topic_schedule_aicpu, host_ctrl_cpu, host_aicpu, device_aicpu, topic_ctrl_cpu_slot;
    unsigned int vdev_aicore_utilization;
    unsigned long long vdev_memory_total, vdev_memory_free;
    unsigned char reserved[12];
};

struct dcmi_media_resource {
    float jpegd, jpege, vpc, vdec, pngd, venc;
    unsigned char reserved[32];
};

struct dcmi_soc_total_resource {
    unsigned int vdev_num, vdev_id[MOST_VDEVICES], vfg_num, vfg_bitmap;
    struct dcmi_base_resource base;
    struct dcmi_computing_resource computing;
    struct dcmi_media_resource media;
};

struct dcmi_vdev_query_stru {
    unsigned int vdev_id;
    struct {
        char name[16];
        unsigned int status, is_container_used, vfid, vfg_id;
        unsigned long long container_id;
        struct dcmi_base_resource base;
        struct dcmi_computing_resource computing;
        struct dcmi_media_resource media;
    } query_info;
};

struct dcmi_create_vdev_res_stru {
    unsigned int vdev_id, vfg_id;
    char template_name[NAME];
    unsigned char reserved[64];
};

struct dcmi_create_vdev_out {
    unsigned int vdev_id, pcie_bus, pcie_device, pcie_func, vfg_id;
    unsigned char reserved[32];
};

struct dcmi_computing_template {
    char name[16];
    char splitting_specifications[8];
    unsigned int aicore_num, mem_size;
    float aicpu_num, vpc, venc, vdec, jpegd, jpege, pngd;
};

struct dcmi_spod_info {
    unsigned int sdid, super_pod_size, super_pod_id, server_index, chassis_id, super_pod_type, reserve[6];
};

struct dcmi_event {
    int type;
    union {
        struct {
            unsigned int event_id;
            unsigned short deviceid;
            unsigned char node_type, node_id, sub_node_type, sub_node_id, severity, assertion;
            int event_serial_num, notify_serial_num;
            unsigned long long alarm_raised_time;
            char event_name[256], additional_info[32];
            unsigned char resv[32];
        } dms_event;
    } event_t;
};

#define CHIPS_OF_A_CARD 2

/* The number in the state's keys of the chip at this place, whether there is one or not; -1 if there cannot be one. */
int chip_at(int card, int device);

/* Begins a call about the chip at this place, and returns from it if there is none or a fault says so. */
#define CHIP(card, device) \
    int chip = chip_at(card, device); \
    ENTER(chip); \
    if (get("chip.%d.physical", chip) == NULL || get("chip.%d.lost", chip)) \
        return leave(NO_DEVICE)

#endif
