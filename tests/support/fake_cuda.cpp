// A libcuda.so.1 for tests: three GPUs, of which the program uses the first and the last, from a
// thread that is not the one that ends it. Says on standard error what is waited for.
#include <cstdio>

namespace {

struct Context {
  int device;
  int retained;
};
Context contexts[3] = {{0, 0}, {1, 0}, {2, 0}};
Context* current = nullptr;

}  // namespace

extern "C" {

int cuDeviceGetCount(int* count) {
  *count = 3;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = device != 1 ? 1 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  ++contexts[device].retained;
  *context = &contexts[device];
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  std::fprintf(stderr, "GPU %d is held %d times\n", device, --contexts[device].retained);
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  current = static_cast<Context*>(context);
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = current;
  current = nullptr;
  return 0;
}
int cuCtxSynchronize() {
  constexpr int kInvalidContext = 201;
  if (current == nullptr) return kInvalidContext;
  std::fprintf(stderr, "GPU %d is waited for\n", current->device);
  return 0;
}

}  // extern "C"
