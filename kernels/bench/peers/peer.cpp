#include "kernels/bench/peers/peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

namespace ptxbuilder::bench {
namespace {

constexpr int kMostStarts = 4;

bool begins(const std::string& line, const std::string& word) {
  return line == word || line.rfind(word + " ", 0) == 0;
}

// Returns the line that requests a problem, without the number of sets.
std::string request(const GemmProblem& p) {
  return fmt::format("problem {} {} {} {} {} {} {} {} {} {}", p.m, p.n, p.k, name(p.a), name(p.b), name(p.d),
                     p.layout(), p.lda(), p.ldb(), p.ldd());
}

std::string request(const AttentionProblem& p) {
  return fmt::format("attention {} {} {} {} {} {} {} {} {} {} {} {}", name(p.type), p.batches, p.queries,
                     p.keys, p.heads, p.key_heads, p.depth, p.value_depth, p.causal ? "causal" : "all",
                     p.left, p.right, p.packed() ? fmt::format("{}", fmt::join(p.lengths, ",")) : "-");
}

}  // namespace

Peer::Peer(const Gpu& gpu, PeerCommand command, double limit)
    : gpu_(gpu), command_(std::move(command)), limit_(limit) {
  try {
    start();
  } catch (const Error& e) {
    given_up_ = e.what();
  }
}

void Peer::start() {
  ++starts_;
  process_.emplace(command_.command, file_);
  const std::string line = process_->receive(std::chrono::duration<double>(limit_));
  if (!begins(line, "peer 1")) process_->fail(fmt::format("begins with '{}', not with 'peer 1'", line));
  version_ = line.substr(std::min<size_t>(line.size(), 7));
}

std::string Peer::refuses(const Problem&) const { return given_up_; }

std::string Peer::answer() {
  try {
    return process_->receive(std::chrono::duration<double>(limit_));
  } catch (const ContenderError& e) {
    if (process_->hangs()) given_up_ = e.what();
    throw;
  }
}

std::string Peer::answer_after(const std::string& verb) {
  const std::string line = answer();
  if (begins(line, verb)) return line.substr(std::min(line.size(), verb.size() + 1));
  if (begins(line, "refused")) throw ContenderError(line.substr(std::min<size_t>(line.size(), 8)));
  process_->fail(fmt::format("answers '{}', and '{}' or 'refused' is expected", line, verb));
}

void Peer::hand_over() {
  output_at_ = 0;
  for (const BufferSet& set : sets_)
    for (const runtime::View& input : set.inputs) output_at_ += input.bytes;
  file_.resize(output_at_ + sets_.at(0).output.bytes);
  std::byte* at = file_.bytes().data();
  for (const BufferSet& set : sets_)
    for (const runtime::View& input : set.inputs) {
      gpu_.device().copy_out(at, input.address, input.bytes);
      at += input.bytes;
    }
}

void Peer::prepare(const Problem& problem, std::span<const BufferSet> sets) {
  sets_.assign(sets.begin(), sets.end());
  if (!process_ || !process_->runs()) {
    try {
      if (starts_ >= kMostStarts) throw ContenderError(fmt::format("it has died {} times", starts_));
      start();
    } catch (const Error& e) {
      given_up_ = e.what();
      throw;
    }
  }
  hand_over();
  process_->send(
      fmt::format("{} {}", std::visit([](const auto& p) { return request(p); }, problem), sets_.size()));
  configuration_ = answer_after("ready");
}

void Peer::launch(size_t set) {
  const runtime::View output = sets_.at(set).output;
  process_->send(fmt::format("launch {}", set));
  answer_after("done");
  gpu_.device().copy_in(output.address, file_.bytes().data() + output_at_, output.bytes);
}

std::optional<double> Peer::own_burst(size_t launches, const std::function<void()>& meanwhile) {
  process_->send(fmt::format("burst {}", launches));
  meanwhile();
  const std::string text = answer_after("time");
  double microseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  if (error != std::errc() || end != text.data() + text.size() || !(microseconds > 0) ||
      !std::isfinite(microseconds))
    process_->fail(fmt::format("answers 'time {}', which is not a number of microseconds", text));
  return microseconds;
}

}  // namespace ptxbuilder::bench
