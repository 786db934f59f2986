/// Ranks in one process, a thread each, over what is right for the device of
/// tests/support/test_device.h: with ZENFLOW_FAKE_CUDA the stand-in for NCCL.
#pragma once

#include <functional>
#include <memory>

#include "tests/support/thread_ranks.h"

#if defined(ZENFLOW_FAKE_CUDA)
#include "tests/emulator/nccl.h"
#endif

namespace zenflow::runtime::testing {

/// Devices are those that start_test_devices has started.
inline void run_on_ranks(int count, const std::function<void(Communicator&)>& work) {
  zenflow::testing::ThreadRanks(count).run([&](Communicator& control) {
#if defined(ZENFLOW_FAKE_CUDA)
    const std::unique_ptr<Communicator> nccl =
        make_nccl_communicator(control, emulator::nccl_stand_in(), control.rank());
    work(*nccl);
#else
    work(control);
#endif
  });
}

}  // namespace zenflow::runtime::testing
