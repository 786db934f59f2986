/// What ranks exchange. One implementation a transport; a run of one process has SelfCommunicator.
#pragma once

#include <span>

namespace zenflow::runtime {

/// Host-side sums over all ranks, in rank order, so that every rank gets the same bits.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<float> values) = 0;
};

/// Rank 0 of 1.
class SelfCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void sum(std::span<double>) override {}
  void sum(std::span<float>) override {}
};

}  // namespace zenflow::runtime
