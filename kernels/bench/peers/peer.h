// A contender that another process runs, with the protocol of peer_process.h.
#pragma once

#include <memory>
#include <optional>

#include "kernels/bench/peers/peer_process.h"
#include "kernels/measure/contender.h"

namespace ptxbuilder::bench {

// The words of a peer on the command line: NAME=COMMAND.
struct PeerCommand {
  std::string name, command;
};

class Peer final : public Contender {
 public:
  // Starts the process. A peer that cannot be started, or that ever hangs, rejects each problem and says why;
  // one that dies is restarted for the next problem, a few times. `limit` is in seconds, for one answer.
  Peer(const Gpu& gpu, PeerCommand command, double limit);

  std::string name() const override { return command_.name; }
  std::string refuses(const Problem& problem) const override;
  void prepare(const Problem& problem, std::span<const BufferSet> sets) override;
  // Waits for the launch, and copies its output into the set's.
  void launch(size_t set) override;
  std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) override;
  std::string configuration() const override { return configuration_; }
  bool is_peer() const override { return true; }

  const std::string& version() const { return version_; }  // its description of itself; "" if it gave none

 private:
  void start();
  std::string answer();
  // Returns the words after `verb`, in the answer to what was sent. Throws ContenderError for any other
  // answer.
  std::string answer_after(const std::string& verb);
  void hand_over();

  const Gpu& gpu_;
  PeerCommand command_;
  double limit_;
  SharedFile file_;
  std::optional<PeerProcess> process_;
  int starts_ = 0;
  std::string given_up_;  // why it gets no more problems
  std::string version_, configuration_;
  std::vector<BufferSet> sets_;
  size_t output_at_ = 0;  // in the file
};

}  // namespace ptxbuilder::bench
