#include "kernels/tune/model_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "kernels/measure/drawn_shapes.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::bench {
namespace {

using kernels::ModelConstants;

constexpr double kFarBehind = 0.2;  // a tile that takes longer than the fastest by this share has a weight of
                                    // 1 / e
constexpr double kNear = 0.01;      // predictions that differ by less than this share are not distinguishable
constexpr double kBehindWeight = 0.4;  // weight of the loss of a choice, relative to the mean square error
constexpr double kClockWeight = 0.5;
constexpr double kPrior = 1e-4;  // weight of the squared distance of a constant from its initial value

struct Named {
  const char* name;
  double ModelConstants::*value;
};
constexpr Named kConstants[] = {
#define PTXBUILDER_CONSTANT(name, value, meaning) {#name, &ModelConstants::name},
#include "kernels/gemm/model.def"
#undef PTXBUILDER_CONSTANT
};

kernels::Prediction prediction(const TimedProduct& p, const TimedTile& t, const ModelConstants& constants) {
  // Contenders that run alternately have the same clock, which depends on the mean of their power.
  const std::optional<double> clock = p.megahertz > 0 ? std::optional(p.megahertz) : std::nullopt;
  return predict(p.operation, p.size, t.tile, hopper::multiprocessors, constants, clock);
}

double fastest(const TimedProduct& p) {
  double best = INFINITY;
  for (const TimedTile& t : p.tiles) best = std::min(best, t.microseconds);
  return best;
}

struct Judgement {
  double square = 0;  // squared error of the time
  double clock = 0;   // squared error of the clock
  double likely = 0;  // expected loss of a choice
  double behind = 0;  // loss of the tile with the best prediction
};

Judgement judge(const TimedProduct& p, const ModelConstants& constants) {
  const double best = fastest(p);
  std::vector<double> errors, shares;
  double least = INFINITY;
  Judgement j;
  double weights = 0, watts = 0;
  std::vector<double> times;
  for (const TimedTile& t : p.tiles) {
    const kernels::Prediction q = prediction(p, t, constants);
    const double time = q.microseconds(), error = std::clamp(std::log(time / t.microseconds), -1.0, 1.0);
    const double weight = std::exp(-(t.microseconds / best - 1) / kFarBehind);
    j.square += weight * error * error;
    weights += weight;
    watts += weight * q.watts;
    if (time < least) {
      least = time;
      j.behind = t.microseconds / best - 1;
    }
    times.push_back(time);
  }
  j.square /= weights;
  if (p.megahertz > 0) {
    const double error = std::log(clock_of(watts / weights, constants) / p.megahertz);
    j.clock = error * error;
  }
  double share_of_all = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double share = std::exp(-(times[i] / least - 1) / kNear);
    share_of_all += share;
    j.likely += share * (p.tiles[i].microseconds / best - 1);
  }
  j.likely /= share_of_all;
  return j;
}

double loss(std::span<const TimedProduct> products, const ModelConstants& constants,
            const ModelConstants& start) {
  double sum = 0;
  for (const TimedProduct& p : products) {
    const Judgement j = judge(p, constants);
    sum += j.square + kClockWeight * j.clock + kBehindWeight * std::min(j.likely, 0.5);
  }
  sum /= static_cast<double>(products.size());
  for (const Named& c : kConstants) {
    const double distance = std::log(constants.*c.value / start.*c.value);
    sum += kPrior * distance * distance;
  }
  return sum;
}

}  // namespace

Fit fit_of(std::span<const TimedProduct> products, const ModelConstants& constants) {
  Fit fit;
  for (const TimedProduct& p : products) {
    const Judgement j = judge(p, constants);
    fit.error += j.square;
    fit.behind += j.behind;
    fit.worst = std::max(fit.worst, j.behind);
  }
  fit.products = products.size();
  fit.error = std::sqrt(fit.error / static_cast<double>(std::max<size_t>(fit.products, 1)));
  fit.behind /= static_cast<double>(std::max<size_t>(fit.products, 1));
  return fit;
}

// Fits one constant after the other. Each constant is increased or decreased by a share of itself as long as
// this improves the fit. The share grows if a step improved the fit, and shrinks otherwise.
ModelConstants fitted(std::span<const TimedProduct> products, const ModelConstants& start) {
  for (const TimedProduct& p : products)
    if (purpose_of(p.size.n, p.size.k) == Purpose::test)
      throw Error(fmt::format(
          "{} x {} x {} is reserved for evaluation, so no model may be fitted to it. Use shapes of --set fit",
          p.size.m, p.size.n, p.size.k));
  ModelConstants best = start;
  double least = loss(products, best, start);
  std::array<double, std::size(kConstants)> shares;
  shares.fill(0.1);
  shares[0] = 0;  // the full clock frequency is not fitted
  for (int sweep = 0; sweep < 150; ++sweep) {
    const double before = least;
    for (size_t i = 0; i < shares.size(); ++i) {
      bool moved = false;
      if (shares[i] == 0) continue;
      for (double factor : {1 + shares[i], 1 / (1 + shares[i])}) {
        ModelConstants trial = best;
        trial.*kConstants[i].value *= factor;
        const double now = loss(products, trial, start);
        if (now >= least) continue;
        least = now;
        best = trial;
        moved = true;
        break;
      }
      shares[i] = std::clamp(shares[i] * (moved ? 1.5 : 0.6), 0.004, 0.3);
    }
    if (sweep > 20 && before - least < 1e-7) break;
  }
  return best;
}

Fit cross_validated(std::span<const TimedProduct> products, const ModelConstants& start, int parts) {
  Fit all;
  for (int part = 0; part < parts; ++part) {
    std::vector<TimedProduct> others, held;
    for (size_t i = 0; i < products.size(); ++i)
      (static_cast<int>(i) % parts == part ? held : others).push_back(products[i]);
    const Fit fit = fit_of(held, fitted(others, start));
    const auto n = static_cast<double>(fit.products);
    all.error += n * fit.error * fit.error;
    all.behind += n * fit.behind;
    all.worst = std::max(all.worst, fit.worst);
    all.products += fit.products;
  }
  all.error = std::sqrt(all.error / static_cast<double>(all.products));
  all.behind /= static_cast<double>(all.products);
  return all;
}

std::string constants_text(const ModelConstants& before, const ModelConstants& after) {
  std::string text;
  for (const Named& c : kConstants)
    text += fmt::format("{:28} {:>10.4g} -> {:.4g}\n", c.name, before.*c.value, after.*c.value);
  return text;
}

std::string model_text(const std::string& model, const ModelConstants& constants) {
  std::string text;
  size_t changed = 0;
  for (size_t at = 0; at < model.size();) {
    const size_t end = std::min(model.find('\n', at), model.size());
    std::string line = model.substr(at, end - at);
    at = end + 1;
    for (const Named& c : kConstants) {
      const std::string head = fmt::format("PTXBUILDER_CONSTANT({}, ", c.name);
      if (!line.starts_with(head)) continue;
      line = fmt::format("{}{:.4g}{}", head, constants.*c.value, line.substr(line.find(',', head.size())));
      ++changed;
    }
    text += line + "\n";
  }
  if (changed != std::size(kConstants))
    throw Error(
        fmt::format("the model's text has {} of the model's {} constants, but must be kernels/gemm/model.def",
                    changed, std::size(kConstants)));
  return text;
}

}  // namespace ptxbuilder::bench
