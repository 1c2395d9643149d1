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
  // Starts the process. If a peer cannot be started, or has ever hung, it refuses all problems and says why.
  // A peer that dies is restarted for the next problem, a few times. `limit` is the time for one answer, in
  // seconds.
  Peer(const Gpu& gpu, PeerCommand command, double limit);

  std::string name() const override { return command_.name; }
  std::string refuses(const Problem& problem) const override;
  void prepare(const Problem& problem, std::span<const BufferSet> sets) override;
  // Waits for the launch, and copies its output into the output of the set.
  void launch(size_t set) override;
  std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) override;
  std::string configuration() const override { return configuration_; }
  bool is_peer() const override { return true; }

  const std::string& version() const { return version_; }  // its description of itself, or ""

 private:
  void start();
  std::string answer();
  // Returns the words after `verb` in the answer to the last request. Throws ContenderError for any other
  // answer.
  std::string answer_after(const std::string& verb);
  void hand_over();

  const Gpu& gpu_;
  PeerCommand command_;
  double limit_;
  SharedFile file_;
  std::optional<PeerProcess> process_;
  int starts_ = 0;
  std::string given_up_;  // why it gets no more problems; "" if it does
  std::string version_, configuration_;
  std::vector<BufferSet> sets_;
  size_t output_at_ = 0;  // offset in the file
};

}  // namespace ptxbuilder::bench
