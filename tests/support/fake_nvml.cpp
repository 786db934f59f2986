// A libnvidia-ml.so.1 for tests: two GPUs, one of them on NVLink alone, as NVIDIA's header declares
// the functions (nvidia-nvml-dev 13.5.37).
#include <cstdio>
#include <cstring>

extern "C" {

struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pciDeviceId;
  unsigned int pciSubSystemId;
  char busId[32];
};

static int initialised = 0;
static int devices[2] = {0, 1};

int nvmlInit_v2() {
  ++initialised;
  return 0;
}
int nvmlShutdown() {
  --initialised;
  return 0;
}
int fake_nvml_initialised() {
  return initialised;
}
const char* nvmlErrorString(int) {
  return "fake error";
}
int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  std::snprintf(version, length, "580.65.06");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned int length) {
  std::snprintf(name, length, "Fake GPU %d", *static_cast<int*>(device));
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, nvmlPciInfo_t* pci) {
  std::memset(pci, 0, sizeof *pci);
  pci->domain = 0;
  pci->bus = 0x3bU + static_cast<unsigned>(*static_cast<int*>(device));
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
  return 0;
}
static int number(void* device, unsigned int* value, unsigned int found) {
  constexpr int kNotSupported = 3;
  if (*static_cast<int*>(device) == 1) return kNotSupported;
  *value = found;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned int* value) {
  return number(device, value, 1);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned int* value) {
  return number(device, value, 5);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned int* value) {
  return number(device, value, 8);
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned int* value) {
  return number(device, value, 16);
}

}  // extern "C"
