// A contender that runs in another process and uses the protocol of peer_process.h.
#pragma once

#include <memory>
#include <optional>

#include "kernels/bench/peers/peer_process.h"
#include "kernels/measure/contender.h"

namespace ptxbuilder::bench {

// A peer that the command line specifies as NAME=COMMAND.
struct PeerCommand {
  std::string name, command;
};

class Peer final : public Contender {
 public:
  // Starts the process. If the process cannot be started, or has once exceeded the time limit, the peer
  // refuses all further problems and reports the reason. A process that ends is restarted for the next
  // problem, but only a few times. `limit` is the time limit for each answer, in seconds.
  Peer(const Gpu& gpu, PeerCommand command, double limit);

  std::string name() const override { return command_.name; }
  std::string refuses(const Problem& problem) const override;
  void prepare(const Problem& problem, std::span<const BufferSet> sets) override;
  // Launches the set, waits, and copies the result to the set's output.
  void launch(size_t set) override;
  std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) override;
  std::string configuration() const override { return configuration_; }
  bool is_peer() const override { return true; }

  const std::string& version() const { return version_; }  // the peer's description of itself, or ""

 private:
  void start();
  std::string answer();
  // Returns the words after `verb` in the answer to the last request. Throws ContenderError if the answer
  // does not begin with `verb`.
  std::string answer_after(const std::string& verb);
  void hand_over();

  const Gpu& gpu_;
  PeerCommand command_;
  double limit_;
  SharedFile file_;
  std::optional<PeerProcess> process_;
  int starts_ = 0;
  std::string
      given_up_;  // the reason why no more problems are sent to the peer; "" if problems are still sent
  std::string version_, configuration_;
  std::vector<BufferSet> sets_;
  size_t output_at_ = 0;  // offset of the output in the shared file
};

}  // namespace ptxbuilder::bench
