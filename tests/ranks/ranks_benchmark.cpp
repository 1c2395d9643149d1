// Calls several ranks on the GPUs of a host, all in one process. It checks results against float64 on random
// shapes. It also checks that repeated calls give the same bits: with one rank late, with jitter, in two
// streams and in graphs. Finally, it measures how long calls take.
//   ranks_benchmark [--device=cuda|emulator] [--ranks=2] [--draws=20] [--repeat=1000] [--seed=0] [--times]
//                   [--tiles] [--crossed]
// The seed determines the emulator's schedules and the random problems. --tiles measures products with each
// tile that could be chosen, and with the one that is chosen. With --crossed, ranks begin with different
// streams. This ends with a time-out on a device that runs cooperative launches one after the other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <string_view>
#include <thread>

#include "kernels/ranks/choice.h"
#include "ptxbuilder/tile/jitter.h"
#include "tests/ranks/norm_kit.h"
#include "tests/ranks/tokens_kit.h"

namespace ptxbuilder {
namespace {

using test::NormCase;
using test::NormRun;
using test::RankedCase;
using test::RankedForm;
using test::RankedRun;
using test::TokenForm;
using test::TokensCase;
using test::TokensRun;

struct Options {
  std::string device = "cuda";
  int ranks = 2, draws = 20, repeat = 1000;
  uint64_t seed = 0;
  bool times = false, tiles = false, crossed = false;
};

Options options_of(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&](std::string_view prefix) { return std::string(word.substr(prefix.size())); };
    if (word.starts_with("--device="))
      o.device = value("--device=");
    else if (word.starts_with("--ranks="))
      o.ranks = std::stoi(value("--ranks="));
    else if (word.starts_with("--draws="))
      o.draws = std::stoi(value("--draws="));
    else if (word.starts_with("--repeat="))
      o.repeat = std::stoi(value("--repeat="));
    else if (word.starts_with("--seed="))
      o.seed = std::stoull(value("--seed="));
    else if (word == "--times")
      o.times = true;
    else if (word == "--tiles")
      o.tiles = true;
    else if (word == "--crossed")
      o.crossed = true;
    else
      throw Error(fmt::format("'{}' is not an option", word));
  }
  return o;
}

// Holds the kernels of all ranks, which are created at the first call of each form.
struct Calls {
  explicit Calls(RankedRun::Devices& all) : devices(all) {
    for (auto& device : devices) {
      for (size_t form = 0; form < products.size(); ++form)
        products[form].push_back(
            std::make_unique<kernels::RankedProduct>(*device, static_cast<RankedForm>(form)));
      norms.push_back(std::make_unique<kernels::RankedNorm>(*device));
      tokens.push_back(std::make_unique<kernels::RankedTokens>(*device));
    }
  }
  RankedRun::Devices& devices;
  std::array<std::vector<std::unique_ptr<kernels::RankedProduct>>, 3>
      products;  // indexed by form, then by rank
  std::vector<std::unique_ptr<kernels::RankedNorm>> norms;
  std::vector<std::unique_ptr<kernels::RankedTokens>> tokens;
};

constexpr int kForms = 5, kNorm = 3, kTokens = 4;
const char* const kNames[kForms] = {"all-gather and product", "product and reduce-scatter",
                                    "product and all-reduce", "all-reduce, residual and norm",
                                    "dispatch and combine of tokens"};

// Holds one call's operands on all ranks, for any form.
struct Trial {
  std::string name;
  std::function<void(int rank, runtime::Stream stream, int multiprocessors)> call;
  std::function<void()> poison;
  std::function<double()> worst;
  std::function<std::vector<std::vector<std::byte>>()> results;
};

// All tiles of a case share the operands.
Trial trial_of(Calls& calls, const RankedCase& c, std::shared_ptr<RankedRun> run,
               std::optional<kernels::RankedTile> tile = {}) {
  const auto form = static_cast<size_t>(c.form);
  return {
      fmt::format("{}, rows {} n {} k {} {}{}{}{}", kNames[form], c.rows, c.n, c.k, name(c.type),
                  c.b_along_n ? ", B along n" : "", c.keeps ? ", A kept" : "", c.is_scaled ? ", scaled" : ""),
      [&calls, run, form, tile](int rank, runtime::Stream stream, int multiprocessors) {
        kernels::RankedArguments p = run->arguments(rank);
        p.stream = stream, p.multiprocessors = multiprocessors;
        kernels::RankedProduct& product = *calls.products[form][static_cast<size_t>(rank)];
        tile ? product(p, *tile) : product(p);
      },
      [run] { run->poison(); },
      [run, c] {
        const bool is_wrong =
            (c.keeps && !run->has_kept()) || (c.form == RankedForm::all_reduce && !run->is_same_on_all());
        return is_wrong ? HUGE_VAL : run->worst(1000);
      },
      [run] { return run->results(); }};
}

Trial trial_of(Calls& calls, const RankedCase& c, uint64_t seed) {
  return trial_of(calls, c, std::make_shared<RankedRun>(calls.devices, c, seed));
}

Trial trial_of(Calls& calls, const NormCase& c, uint64_t seed) {
  auto run = std::make_shared<NormRun>(calls.devices, c, seed);
  return {fmt::format("norm rows {} columns {} {}", c.rows, c.columns, name(c.type)),
          [&calls, run](int rank, runtime::Stream stream, int multiprocessors) {
            kernels::RankedNormArguments p = run->arguments(rank);
            p.stream = stream, p.multiprocessors = multiprocessors;
            (*calls.norms[static_cast<size_t>(rank)])(p);
          },
          [run] { run->poison(); }, [run] { return run->is_same_on_all() ? run->worst() : HUGE_VAL; },
          [run] { return run->results(); }};
}

// A combine brings back what the preceding dispatch took away.
Trial trial_of(Calls& calls, const TokensCase& c, uint64_t seed) {
  auto run = std::make_shared<TokensRun>(calls.devices, c, seed);
  return {fmt::format("tokens: rows {} of {} B, {} experts a rank", c.most_rows, c.row_bytes, c.experts),
          [&calls, run](int rank, runtime::Stream stream, int multiprocessors) {
            for (const TokenForm form : {TokenForm::dispatch, TokenForm::combine}) {
              kernels::RankedTokensArguments p = run->arguments(rank, form);
              p.stream = stream, p.multiprocessors = multiprocessors;
              (*calls.tokens[static_cast<size_t>(rank)])(form, p);
            }
          },
          [run] { run->poison(); },
          [run] { return run->is_dispatched() && run->has_come_back() ? 0 : HUGE_VAL; },
          [run] { return run->results(); }};
}

Trial drawn(Calls& calls, int form, int ranks, int number, std::mt19937_64& engine, int64_t most) {
  const auto draw = [&](int64_t unit, int64_t end) {
    return unit *
           (1 + static_cast<int64_t>(engine() % static_cast<uint64_t>(std::max<int64_t>(end / unit, 1))));
  };
  if (form == kNorm) {
    NormCase c{ranks, draw(1, most / 30), engine() % 4 ? draw(8, most * 4) : draw(1, most * 4)};
    if (number % 5 == 4) c.columns = draw(8, most * 87);  // clusters share a row
    c.type = std::array{DType::bf16, DType::f16, DType::f32}[static_cast<size_t>(number % 3)];
    c.has_residual = number % 2 == 0, c.has_weight = number % 4 < 2;
    return trial_of(calls, c, engine());
  }
  if (form == kTokens)
    return trial_of(calls, TokensCase{ranks, draw(1, 64), draw(1, most), draw(16, 8192), number % 3 == 0},
                    engine());
  // There are few types, because each kernel has to be compiled.
  RankedCase c{static_cast<RankedForm>(form), ranks};
  c.rows = draw(1, most), c.n = draw(8, most * 4 / 3), c.k = draw(16, most);
  const bool is_turned = number % 4 == 1;
  c.type = std::array{DType::bf16, DType::bf16, DType::f16, DType::e4m3}[static_cast<size_t>(number % 4)];
  c.d_type = c.type == DType::f16 ? DType::f16 : DType::bf16;
  c.b_along_n = is_turned, c.keeps = is_turned && form == 0, c.is_scaled = c.type == DType::e4m3;
  return trial_of(calls, c, engine());
}

Trial fixed(Calls& calls, int form, int ranks, int64_t most, uint64_t seed) {
  if (form == kNorm) return trial_of(calls, NormCase{ranks, 8, 4096}, seed);
  if (form == kTokens) return trial_of(calls, TokensCase{ranks, 8, std::min(most, int64_t{520}), 4096}, seed);
  const auto size = [&](int64_t wanted) { return std::min(wanted, most); };
  return trial_of(
      calls,
      RankedCase{static_cast<RankedForm>(form), ranks, size(520), size(1032) / 8 * 8, size(512) / 8 * 8},
      seed);
}

class Run {
 public:
  explicit Run(const Options& o)
      : options_(o),
        devices_(test::ranked_devices(o.device, o.ranks, test::of_seed(o.seed))),
        calls_(devices_),
        most_(o.device == "emulator" ? 150 : 3000),
        limit_(o.device == "emulator" ? 900 : 60),
        engine_(53 + o.seed) {}

  int operator()() {
    std::cout << fmt::format(
        "{}, {}\n\n| {} ranks | drawn | repeated, one late | with jitter | two streams | graph |\n"
        "|---|---|---|---|---|---|\n",
        devices_[0]->properties().name, devices_[0]->properties().driver, options_.ranks);
    for (int form = 0; form < kForms; ++form) {
      std::cout << fmt::format("| {} ", kNames[form]) << std::flush;
      for (const auto& check : {&Run::draws, &Run::repetitions, &Run::jitter, &Run::streams, &Run::graphs})
        std::cout << "| " << (this->*check)(form) << " " << std::flush;
      std::cout << "|\n";
    }
    if (options_.times) show_times();
    if (options_.tiles) show_tiles();
    std::cout << (wrong_ ? "WRONG\n" : "all right\n");
    return wrong_ ? 1 : 0;
  }

 private:
  void synchronize() {
    for (auto& device : devices_) device->synchronize(limit_);
  }
  void on_all(const Trial& t, runtime::Stream stream = {}, int multiprocessors = 0) {
    for (int r = 0; r < options_.ranks; ++r) t.call(r, stream, multiprocessors);
  }
  // Returns a table entry: the number `right` of correct calls, or an error if it is not `all`.
  std::string counted(int right, int all, const std::string& problem) {
    wrong_ += right != all;
    return right == all ? fmt::format("{}", all) : fmt::format("WRONG: {} of {}, {}", right, all, problem);
  }
  bool is_right(const Trial& t) {
    t.poison();
    on_all(t);
    synchronize();
    const double worst = t.worst();
    if (worst > 1)
      std::cout << fmt::format("WRONG: {}: {} of what rounding allows\n", t.name, worst) << std::flush;
    return worst <= 1;
  }

  std::string draws(int form) {
    int right = 0;
    for (int i = 0; i < options_.draws; ++i)
      right += is_right(drawn(calls_, form, options_.ranks, i, engine_, most_));
    return counted(right, options_.draws, "see above");
  }

  // One rank is late in some repetitions.
  std::string repetitions(int form) {
    const Trial t = fixed(calls_, form, options_.ranks, most_, 5);
    if (!is_right(t)) return counted(0, 1, "the first");
    const auto first = t.results();
    int same = 0, rounds = 0;
    for (int i = 0; i < options_.repeat; ++i) {
      for (int r = 0; r < options_.ranks; ++r) {
        if (i % 50 == 49 && r == i / 50 % options_.ranks)
          std::this_thread::sleep_for(std::chrono::microseconds(engine_() % 3000));
        t.call(r, {}, 0);
      }
      if (i % 100 != 99 && i + 1 != options_.repeat) continue;
      synchronize();
      same += t.results() == first;
      ++rounds;
      t.poison();
    }
    wrong_ += same != rounds;
    return same == rounds ? fmt::format("{} the same", options_.repeat)
                          : fmt::format("OTHER BITS in {} of {} rounds", rounds - same, rounds);
  }

  // Kernels that sleep at random points, for several seeds, must give the same bits.
  std::string jitter(int form) {
    const Trial plain = fixed(calls_, form, options_.ranks, most_, 6);
    if (!is_right(plain)) return counted(0, 1, "the first");
    constexpr int seeds = 3;
    int same = 0;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const JitterScope shaken(seed);
      Calls calls(devices_);
      const Trial t = fixed(calls, form, options_.ranks, most_, 6);
      for (int i = 0; i < 20; ++i) on_all(t);
      synchronize();
      same += t.results() == plain.results();
    }
    return counted(same, seeds, "other bits");
  }

  // Two calls run at once, and each takes half of the device.
  std::string streams(int form) {
    if (options_.device == "emulator") return "-";  // the emulator has one queue
    constexpr int calls = 50;
    const int half = std::max(1, devices_[0]->properties().multiprocessors / 2);
    std::vector<Trial> trials;
    std::vector<std::vector<std::vector<std::byte>>> wanted;
    std::vector<std::vector<std::unique_ptr<runtime::OwnedStream>>> streams(2);
    for (size_t i = 0; i < 2; ++i) {
      trials.push_back(fixed(calls_, form, options_.ranks, most_, 7 + i));
      for (auto& device : devices_) streams[i].push_back(device->create_stream());
      if (!is_right(trials[i])) return counted(0, 1, "the first");
      wanted.push_back(trials[i].results());
      trials[i].poison();
    }
    for (int n = 0; n < calls; ++n)
      for (int r = 0; r < options_.ranks; ++r)
        for (size_t i = 0; i < 2; ++i) {
          const size_t one = options_.crossed ? (i + static_cast<size_t>(r)) % 2 : i;
          trials[one].call(r, *streams[one][static_cast<size_t>(r)], half);
        }
    for (size_t i = 0; i < 2; ++i)
      for (size_t r = 0; r < devices_.size(); ++r) devices_[r]->synchronize(*streams[i][r], limit_);
    int same = 0;
    for (size_t i = 0; i < 2; ++i) same += trials[i].results() == wanted[i];
    return counted(same, 2, "other bits");
  }

  std::string graphs(int form) {
    if (options_.device == "emulator") return "-";
    const Trial t = fixed(calls_, form, options_.ranks, most_, 9);
    if (!is_right(t)) return counted(0, 1, "the first");
    const auto wanted = t.results();
    t.poison();
    std::vector<std::unique_ptr<runtime::Graph>> graphs;
    for (int r = 0; r < options_.ranks; ++r)
      graphs.push_back(
          devices_[static_cast<size_t>(r)]->capture([&](runtime::Stream s) { t.call(r, s, 0); }));
    for (int i = 0; i < 300; ++i)
      for (auto& graph : graphs) graph->launch();
    synchronize();
    return counted(t.results() == wanted ? 300 : 0, 300, "other bits");
  }

  // Returns the time of a call on the slowest rank, in microseconds of the device's clock. `t` runs `times`
  // times, which must make twenty calls in total. Each rank has its own thread, as it has its own process in
  // training; with one thread for all ranks, short calls would wait for the host.
  double time(const Trial& t, int times = 20) {
    constexpr int warm_up = 2, rounds = 9, calls = 20;
    synchronize();
    std::vector<double> medians(devices_.size());
    std::vector<std::exception_ptr> failures(devices_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < devices_.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          std::vector<double> us = devices_[r]->time(warm_up, rounds, [&] {
            for (int i = 0; i < times; ++i) t.call(static_cast<int>(r), {}, 0);
          });
          std::ranges::sort(us);
          medians[r] = us[us.size() / 2] / calls;
        } catch (...) {
          failures[r] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    return *std::ranges::max_element(medians);
  }

  // Sizes count all ranks. Calls are also timed in graphs of twenty, whose launches cost the host nothing.
  void show_times() {
    std::cout << "\n| call | us | in a graph |\n|---|---|---|\n";
    const auto show = [&](const Trial& t) {
      constexpr int calls = 20;
      std::vector<std::unique_ptr<runtime::Graph>> graphs;
      for (int r = 0; r < options_.ranks; ++r)
        graphs.push_back(devices_[static_cast<size_t>(r)]->capture([&](runtime::Stream s) {
          for (int i = 0; i < calls; ++i) t.call(r, s, 0);
        }));
      Trial recorded = t;
      recorded.call = [&](int rank, runtime::Stream, int) { graphs[static_cast<size_t>(rank)]->launch(); };
      std::cout << fmt::format("| {} | {:.1f} | {:.1f} |\n", t.name, time(t), time(recorded, 1))
                << std::flush;
    };
    for (const RankedCase& c : timed_cases()) show(trial_of(calls_, c, 1));
    for (const int64_t rows : {1, 8, 32, 128})
      show(trial_of(calls_, NormCase{options_.ranks, rows, 4096}, 1));
    for (const int64_t rows : {64, 1024, 8192, 32768})
      show(trial_of(calls_, TokensCase{options_.ranks, 64 / options_.ranks, rows, 8192, true}, 1));
  }

  // Returns products that occur in layers of models, and some random ones.
  std::vector<RankedCase> timed_cases() const {
    const int ranks = options_.ranks;
    struct Shape {
      int64_t m, n, k;
    };
    std::vector<RankedCase> cases;
    for (const auto& [m, n, k] : {Shape{4096, 8192, 8192},
                                  {8192, 8192, 8192},
                                  {16384, 4096, 4096},
                                  {2048, 14336, 4096},
                                  {13952, 2240, 6016},
                                  {1984, 3136, 6272},
                                  {832, 1792, 8704},
                                  {9856, 3456, 2304}}) {
      cases.push_back({RankedForm::all_gather, ranks, m / ranks, n / ranks, k});
      cases.push_back({RankedForm::reduce_scatter, ranks, m / ranks, n, k / ranks});
      cases.push_back({RankedForm::all_reduce, ranks, m, n, k / ranks});
    }
    return cases;
  }

  void show_tiles() {
    std::cout << "\n| product | chosen | us | fastest | us |\n|---|---|---|---|---|\n";
    for (const RankedCase& c : timed_cases()) {
      const auto run = std::make_shared<RankedRun>(devices_, c, 1);
      kernels::RankedTile fixed, fastest;
      fixed.ranks = c.ranks;
      double least = HUGE_VAL;
      for (const kernels::RankedTile& tile : kernels::ranked_tiles(c.form, fixed, c.rows, c.n))
        if (const double us = time(trial_of(calls_, c, run, tile)); us < least) least = us, fastest = tile;
      const auto words = [](const kernels::RankedTile& t) {
        return fmt::format("{} x {} by {}", t.bm, t.bn, t.cluster);
      };
      const Trial chosen = trial_of(calls_, c, run);
      std::cout << fmt::format("| {} | {} | {:.1f} | {} | {:.1f} |\n", chosen.name,
                               words(kernels::ranked_choice(c.form, fixed, c.rows, c.n, c.k,
                                                            devices_[0]->properties().multiprocessors)),
                               time(chosen), words(fastest), least)
                << std::flush;
    }
  }

  Options options_;
  RankedRun::Devices devices_;
  Calls calls_;
  const int64_t most_;  // the largest number of rows that is drawn
  const std::chrono::seconds limit_;
  std::mt19937_64 engine_;
  int wrong_ = 0;
};

}  // namespace
}  // namespace ptxbuilder

int main(int argc, char** argv) {
  try {
    return ptxbuilder::Run(ptxbuilder::options_of(argc, argv))();
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
