#include "kernels/bench/peers/peer.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace ptxbuilder::bench {
namespace {

constexpr int kMostStarts = 4;

bool begins(const std::string& line, const std::string& word) {
  return line == word || line.rfind(word + " ", 0) == 0;
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
  if (!begins(line, "peer 1")) process_->fail(fmt::format("begins with '{}' and not with 'peer 1'", line));
  version_ = line.substr(std::min<size_t>(line.size(), 7));
}

std::string Peer::refuses(const GemmProblem&) const { return given_up_; }

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
  process_->fail(fmt::format("answers '{}', where '{}' or 'refused' is due", line, verb));
}

void Peer::hand_over(const GemmProblem& p) {
  const auto a = static_cast<size_t>(p.a_bytes()), b = static_cast<size_t>(p.b_bytes());
  d_at_ = sets_.size() * (a + b);
  file_.resize(d_at_ + static_cast<size_t>(p.d_bytes()));
  std::byte* at = file_.bytes().data();
  for (const BufferSet& set : sets_) {
    gpu_.device().copy_out(at, set.a.address, a);
    gpu_.device().copy_out(at + a, set.b.address, b);
    at += a + b;
  }
}

void Peer::prepare(const GemmProblem& p, std::span<const BufferSet> sets) {
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
  hand_over(p);
  process_->send(fmt::format("problem {} {} {} {} {} {} {} {} {} {} {}", p.m, p.n, p.k, ptxbuilder::name(p.a),
                             ptxbuilder::name(p.b), ptxbuilder::name(p.d), p.layout(), p.lda(), p.ldb(),
                             p.ldd(), sets_.size()));
  configuration_ = answer_after("ready");
}

void Peer::launch(size_t set) {
  const runtime::View d = sets_.at(set).d;
  process_->send(fmt::format("launch {}", set));
  answer_after("done");
  gpu_.device().copy_in(d.address, file_.bytes().data() + d_at_, d.bytes);
}

std::optional<double> Peer::own_burst(size_t launches, const std::function<void()>& meanwhile) {
  process_->send(fmt::format("burst {}", launches));
  meanwhile();
  const std::string text = answer_after("time");
  double microseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  if (error != std::errc() || end != text.data() + text.size() || !(microseconds > 0) ||
      !std::isfinite(microseconds))
    process_->fail(fmt::format("answers 'time {}', which are no microseconds", text));
  return microseconds;
}

}  // namespace ptxbuilder::bench
