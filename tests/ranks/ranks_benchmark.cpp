// Products of several ranks on the GPUs of a host, all in one process: right by float64, and how long they
// take.
//   ranks_benchmark [--device=cuda|emulator] [--ranks=2] [--draws=20] [--repeat=1000] [--times]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string_view>
#include <thread>

#include "tests/ranks/ranks_kit.h"

namespace ptxbuilder {
namespace {

using test::RankedCase;
using test::RankedForm;
using test::RankedRun;

const char* name(RankedForm form) { return form == RankedForm::all_gather ? "all_gather" : "reduce_scatter"; }

struct Options {
  std::string device = "cuda";
  int ranks = 2, draws = 20, repeat = 1000;
  bool times = false;
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
    else if (word == "--times")
      o.times = true;
    else
      throw Error(fmt::format("'{}' is no option", word));
  }
  return o;
}

struct Products {
  explicit Products(RankedRun::Devices& devices) {
    for (const RankedForm form : {RankedForm::all_gather, RankedForm::reduce_scatter})
      for (auto& device : devices)
        of[static_cast<size_t>(form)].push_back(std::make_unique<kernels::RankedProduct>(*device, form));
  }
  std::array<std::vector<std::unique_ptr<kernels::RankedProduct>>, 2> of;
  void call(const RankedCase& c, const RankedRun& run, const kernels::RankedTile& tile) {
    for (int r = 0; r < c.ranks; ++r)
      (*of[static_cast<size_t>(c.form)][static_cast<size_t>(r)])(run.arguments(r), tile);
  }
};

struct Shape {
  int64_t m, n, k;
};
// The sizes are those of all ranks: layers of models, and ten that a seed draws.
std::vector<Shape> shapes() {
  std::vector<Shape> all = {{4096, 8192, 8192}, {8192, 8192, 8192}, {16384, 4096, 4096}, {2048, 14336, 4096}};
  std::mt19937_64 engine(530);
  for (int i = 0; i < 10; ++i) {
    const auto draw = [&](int64_t unit, int64_t most) {
      return unit * (1 + static_cast<int64_t>(engine() % static_cast<uint64_t>(most)));
    };
    const int64_t m = draw(16, 1000), n = 1024 + draw(64, 120), k = 1024 + draw(128, 60);
    all.push_back({m, n, k});
  }
  return all;
}

bool verify(RankedRun::Devices& devices, Products& products, const RankedCase& c,
            const kernels::RankedTile& tile, uint64_t seed, int64_t samples) {
  RankedRun run(devices, c, seed);
  double worst = 0;
  std::vector<std::vector<uint16_t>> first;
  bool same = true;
  for (int i = 0; i < 3; ++i) {
    run.poison();
    products.call(c, run, tile);
    run.synchronize();
    if (i == 0) {
      worst = run.worst(samples);
      first = run.results();
    } else {
      same &= run.results() == first;
    }
  }
  const bool right = worst <= 1 && same;
  std::cout << fmt::format("{} rows {} n {} k {}: error {:.3f}{} {}\n", name(c.form), c.rows, c.n, c.k, worst,
                           same ? "" : ", other bits on repetition", right ? "right" : "WRONG")
            << std::flush;
  return right;
}

double time(RankedRun::Devices& devices, Products& products, const RankedCase& c,
            const kernels::RankedTile& tile) {
  RankedRun run(devices, c, 7);
  constexpr int rounds = 9, calls = 20;
  std::vector<double> us;
  for (int round = -2; round < rounds; ++round) {
    run.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) products.call(c, run, tile);
    run.synchronize();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (round >= 0) us.push_back(took.count() / calls);
  }
  std::ranges::sort(us);
  return us[us.size() / 2];
}

int run(const Options& o) {
  auto devices = test::ranked_devices(o.device, o.ranks);
  std::cout << devices[0]->properties().name << ", " << devices[0]->properties().driver << "\n";
  Products products(devices);
  kernels::RankedTile tile;
  tile.ranks = o.ranks;
  std::mt19937_64 engine(53);
  int wrong = 0;
  for (int i = 0; i < 2 * o.draws; ++i) {
    RankedCase c{i % 2 ? RankedForm::reduce_scatter : RankedForm::all_gather, o.ranks};
    c.rows = 1 + static_cast<int64_t>(engine() % 3000);
    c.n = 8 * (1 + static_cast<int64_t>(engine() % 500));
    c.k = 8 * (1 + static_cast<int64_t>(engine() % 300));
    wrong += !verify(devices, products, c, tile, engine(), 1000);
  }
  for (const RankedForm form : {RankedForm::all_gather, RankedForm::reduce_scatter}) {
    if (o.repeat == 0) break;
    const RankedCase c{form, o.ranks, 520, 1032, 512};
    RankedRun run(devices, c, 5);
    products.call(c, run, tile);
    run.synchronize();
    const auto first = run.results();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < o.repeat; ++i) {
      for (int r = 0; r < c.ranks; ++r) {  // one rank is late now and then
        if (i % 50 == 49 && r == i / 50 % c.ranks)
          std::this_thread::sleep_for(std::chrono::microseconds(engine() % 3000));
        (*products.of[static_cast<size_t>(form)][static_cast<size_t>(r)])(run.arguments(r), tile);
      }
      if (i % 100 == 99) run.synchronize();
    }
    run.synchronize();
    const bool same = run.results() == first;
    wrong += !same;
    std::cout << fmt::format(
        "{}: {} repetitions in {:.0f} ms, {}\n", name(form), o.repeat,
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
        same ? "the same bits" : "OTHER BITS");
  }
  if (o.times)
    for (const auto& [m, n, k] : shapes())
      for (const RankedForm form : {RankedForm::all_gather, RankedForm::reduce_scatter}) {
        const bool gathers = form == RankedForm::all_gather;
        const RankedCase c{form, o.ranks, m / o.ranks, gathers ? n / o.ranks : n, gathers ? k : k / o.ranks};
        for (const int group : {4, 8, 16}) {
          tile.group = group;
          std::cout << fmt::format("{} m {} n {} k {} group {}: {:.1f} us\n", name(form), m, n, k, group,
                                   time(devices, products, c, tile))
                    << std::flush;
        }
        tile.group = 8;
        wrong += !verify(devices, products, c, tile, 3, 300);
      }
  std::cout << (wrong ? "WRONG\n" : "all right\n");
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace ptxbuilder

int main(int argc, char** argv) {
  try {
    return ptxbuilder::run(ptxbuilder::options_of(argc, argv));
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
