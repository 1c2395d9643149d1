#include "kernels/family/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {
namespace {

// Returns the i-th number of a random stream. It is the finalizer of SplitMix64 (Steele, Lea, Flood 2014),
// applied to a counter, so that any thread can generate any element.
uint64_t random_bits(uint64_t stream, uint64_t i) {
  uint64_t z = stream * 0xd1342543de82ef95 + (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Returns a normally distributed number, computed from two uniform numbers with the Box-Muller transform.
double random_normal(uint64_t stream, uint64_t i) {
  uint64_t bits = random_bits(stream, i);
  double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  double v = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// Calls body(i) for each i below count, in blocks that are distributed over all processors. Prints the
// progress if the program is used interactively.
void parallel_for(size_t count, size_t block, const char* what, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next = 0;
  std::mutex reporting;
  auto start = std::chrono::steady_clock::now();
  bool watched = isatty(STDERR_FILENO) != 0, shown = false;
  auto work = [&] {
    for (size_t first; (first = next.fetch_add(block)) < count;) {
      for (size_t i = first; i < std::min(count, first + block); ++i) body(i);
      if (watched && std::chrono::steady_clock::now() - start > std::chrono::seconds(1) &&
          reporting.try_lock()) {
        fmt::print(stderr, "\r{} {:3.0f} %", what,
                   100.0 * static_cast<double>(first) / static_cast<double>(count));
        shown = true;
        reporting.unlock();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) threads.emplace_back(work);
    work();
  }
  if (shown) fmt::print(stderr, "\r\x1b[K");
}

size_t product(const std::vector<uint64_t>& shape) {
  size_t n = 1;
  for (uint64_t extent : shape) n *= extent;
  return n;
}

// Returns a table of the numbers of a type of 8 or 16 bits, indexed by their bits; empty for wider types.
// Using the table is faster than decoding each element.
std::span<const double> decoded(DType type) {
  if (size_of(type) > 2) return {};
  static std::mutex mutex;
  static std::map<DType, std::vector<double>> tables;
  std::lock_guard lock(mutex);
  std::vector<double>& table = tables[type];
  if (table.empty()) {
    table.resize(size_t{1} << (8 * size_of(type)));
    for (size_t bits = 0; bits < table.size(); ++bits) table[bits] = decode(type, bits);
  }
  return table;
}

std::string coordinates(const Tensor& t, size_t i) {
  std::string text;
  for (uint64_t extent : t.shape()) {
    text = fmt::format("{}{}{}", i % extent, text.empty() ? "" : ", ", text);
    i /= extent;
  }
  return "[" + text + "]";
}

}  // namespace

Tensor::Tensor(runtime::Device& device, DType dtype, std::vector<uint64_t> shape)
    : dtype_(dtype),
      bytes_(static_cast<size_t>(size_of(dtype))),
      shape_(std::move(shape)),
      count_(product(shape_)),
      host_(count_ * bytes_),
      decoded_(decoded(dtype)),
      buffer_(std::make_shared<runtime::Buffer>(device, host_.size())) {}

void Tensor::set(size_t i, double value) {
  const uint64_t bits = encode(dtype_, value);
  std::memcpy(host_.data() + i * bytes_, &bits, bytes_);
}

std::string Timing::rate() const {
  double seconds = median * 1e-6;
  if (flops > 100 * bytes) return fmt::format("{:.1f} TFLOP/s", flops / seconds * 1e-12);
  return fmt::format("{:.1f} GB/s", bytes / seconds * 1e-9);
}

Tensor Run::tensor(DType dtype, std::vector<uint64_t> shape) {
  double bytes = size_of(dtype);
  for (uint64_t extent : shape) bytes *= static_cast<double>(extent);
  const bool emulated = dynamic_cast<runtime::Emulator*>(&device_) != nullptr;
  host_bytes_ += emulated ? 2 * bytes : bytes;
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (host_bytes_ > machine)
    throw Error(fmt::format(
        "a tensor of {} {} takes {:.1f} GB, so the tensors of the run take {:.1f} GB{}, but the machine has "
        "{:.1f} GB: choose a smaller size",
        fmt::join(shape, " x "), name(dtype), bytes * 1e-9, host_bytes_ * 1e-9,
        emulated ? ", once on the host and once on the emulator" : " on the host", machine * 1e-9));
  Tensor made(device_, dtype, std::move(shape));
  memory_.push_back(made.buffer_);
  return made;
}

Tensor Run::normal(DType dtype, std::vector<uint64_t> shape, Where where) {
  const CallersLine line(where);
  Tensor t = tensor(dtype, std::move(shape));
  uint64_t stream = random_bits(options_.seed, streams_++);
  const double scale = is_int8(dtype) ? 16 : 1;
  parallel_for(t.count(), 1 << 16, "random data",
               [&](size_t i) { t.set(i, scale * random_normal(stream, i)); });
  t.to_device();
  return t;
}

Tensor Run::output(DType dtype, std::vector<uint64_t> shape, Where where) {
  const CallersLine line(where);
  Tensor t = tensor(dtype, std::move(shape));
  t.poison();
  return t;
}

void Run::launch(std::vector<runtime::Argument> arguments, std::function<void()> ahead, Where where) {
  if (kernel_.signature().profile) {
    profile_.emplace(device_, kernel_.signature(), kernel_.grid(arguments, where), where);
    arguments.push_back(*profile_);
  }
  queue_ = [this, arguments = std::move(arguments), ahead = std::move(ahead), where] {
    if (ahead) ahead();
    kernel_.launch({}, arguments, where);
  };
}

runtime::Profile Run::profile() const {
  if (!profile_) throw Error("profile: the kernel was not launched, or records nothing");
  return profile_->read();
}

void Run::check(Tensor& output, double cost, const std::function<Expected(size_t)>& expected,
                const std::function<void()>& start) {
  if (!options_.verify || (verdict_ && verdict_->wrong)) return;
  const std::optional<Verdict> others = std::exchange(verdict_, std::nullopt);
  references_.clear();
  for (int schedule = 0; schedule < options_.schedules; ++schedule) {
    if (options_.choose_schedule) options_.choose_schedule(options_.seed + static_cast<uint64_t>(schedule));
    start ? start() : output.poison();
    queue_();
    device_.synchronize(options_.time_limit);
    output.from_device();
    verdict_ = compare(output, cost, expected);
    if (verdict_->wrong) break;
  }
  if (!others || !verdict_) return;
  verdict_->bits ^= others->bits * 0x9e3779b97f4a7c15;
  verdict_->count += others->count;
  verdict_->checked += others->checked;
  verdict_->max_error = std::max(verdict_->max_error, others->max_error);
  verdict_->norm_error = std::max(verdict_->norm_error, others->norm_error);
}

Verdict Run::compare(const Tensor& output, double cost, const std::function<Expected(size_t)>& expected) {
  constexpr double kOperations = 0x1p33;  // operations that take a few seconds on a few processors
  Verdict v;
  v.count = output.count();
  v.bits = 0xcbf29ce484222325;  // FNV-1a over the complete 8-byte words
  for (size_t at = 0; at < output.host_.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, output.host_.data() + at, std::min(sizeof word, output.host_.size() - at));
    v.bits = (v.bits ^ word) * 0x100000001b3;
  }
  v.checked = std::min<size_t>(v.count, std::max<size_t>(4096, static_cast<size_t>(kOperations / cost)));
  bool all = v.checked == v.count;
  const bool is_known = !references_.empty();
  if (!is_known && options_.schedules > 1) references_.resize(v.checked);
  uint64_t stream = random_bits(options_.seed, ~uint64_t{0});
  std::mutex mutex;
  double error2 = 0, norm2 = 0;
  size_t first_wrong = SIZE_MAX;
  // A thread reuses values that the elements of a row share, so blocks are as long as an even distribution
  // over the threads permits.
  const size_t block = v.checked / (16 * std::max(std::thread::hardware_concurrency(), 1U));
  parallel_for(v.checked, std::clamp<size_t>(block, 16, 1024), "reference", [&](size_t n) {
    // A sample always contains the first and the last element, because boxes are clipped at the corners.
    size_t i = all || n == 0 ? n : n == 1 ? v.count - 1 : random_bits(stream, n) % v.count;
    double got = output[i];
    const Expected e = is_known ? references_[n] : expected(i);
    if (!references_.empty()) references_[n] = e;
    const double error = got == e.value ? 0 : std::abs(got - e.value);  // also works for infinities
    bool right = error <= e.tolerance;                                  // false for NaN
    std::lock_guard lock(mutex);
    error2 += error * error;
    norm2 += e.value * e.value;
    v.max_error = std::isnan(error) ? error : std::max(v.max_error, error);
    if (right) return;
    ++v.wrong;
    if (i > first_wrong) return;
    first_wrong = i;
    v.first_wrong = fmt::format("element {} is {}, expected {} +- {:.3g}", coordinates(output, i), got,
                                e.value, e.tolerance);
  });
  v.norm_error = norm2 > 0 ? std::sqrt(error2 / norm2) : std::sqrt(error2);
  return v;
}

void Run::measure(double flops, double bytes) {
  work_ = {flops, bytes};
  if (options_.bench) timing_ = time(options_.warm_up, options_.launches);
}

Timing Run::time(int warm_up, int launches) {
  if (!work_) throw Error("nothing is timed: the run() of the kernel does not call measure()");
  Timing t;
  std::tie(t.flops, t.bytes) = *work_;
  t.microseconds = device_.time(warm_up, launches, queue_);
  std::vector<double> sorted = t.microseconds;
  std::sort(sorted.begin(), sorted.end());
  t.median = sorted[sorted.size() / 2];
  t.least = sorted.front();
  t.greatest = sorted.back();
  return t;
}

}  // namespace ptxbuilder::command
