#include "runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>

namespace ptxbuilder::runtime {
namespace {

using namespace profile_format;
using Kind = ProfileFormat::Kind;

const ProfileFormat& format_of(const Signature& signature) {
  if (!signature.profile)
    throw Error(fmt::format(
        "profile: the kernel '{}' does not record a profile; build it while a ProfileScope is open",
        signature.kernel));
  return *signature.profile;
}

uint32_t warps_of(const Signature& signature) { return (signature.threads + 31) / 32; }

uint64_t records_of(const Signature& signature, uint64_t ctas) {
  return kCalibrationRecords + ctas * warps_of(signature) * warp_records(format_of(signature).records);
}

template <class T>
T at(std::span<const std::byte> memory, uint64_t record) {
  T value;
  std::memcpy(&value, memory.data() + record * kRecordBytes, sizeof value);
  return value;
}

double middle(std::vector<double> values, double part = 0.5) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double nanoseconds_between(uint64_t from, uint64_t to) {
  return static_cast<double>(static_cast<int64_t>(to - from));
}

// Aligns the multiprocessors' clocks, which count separately. A comparison with the shared timer
// shows that all clocks have the same rate. The timer has a coarser resolution, so its readings lag by up to
// one tick of the timer. A multiprocessor is aligned with the reading that lags least.
class Clocks {
 public:
  explicit Clocks(const std::vector<Header>& headers) {
    double clocks = 0, nanoseconds = 0;
    for (const Header& h : headers) {
      clocks += nanoseconds_between(h.first_clock, h.last_clock);
      nanoseconds += nanoseconds_between(h.first_nanoseconds, h.last_nanoseconds);
    }
    period = clocks > 0 && nanoseconds > 0 ? nanoseconds / clocks : 1;
    if (headers.empty()) return;
    for (const Header& h : headers) {
      Anchor& anchor = anchors_.try_emplace(h.sm, Anchor{h.first_clock, -1e300}).first->second;
      for (const auto& [clock, nanoseconds] :
           {std::pair(h.first_clock, h.first_nanoseconds), std::pair(h.last_clock, h.last_nanoseconds)})
        anchor.time = std::max(anchor.time, nanoseconds_between(headers[0].first_nanoseconds, nanoseconds) -
                                                period * nanoseconds_between(anchor.clock, clock));
    }
  }

  double time(uint32_t sm, uint64_t clock) const {
    const Anchor& anchor = anchors_.at(sm);
    return anchor.time + period * nanoseconds_between(anchor.clock, clock);
  }

  double period = 1;  // clock period in nanoseconds

 private:
  struct Anchor {
    uint64_t clock;
    double time;
  };
  std::map<uint32_t, Anchor> anchors_;
};

// Extends the clocks of records, which contain only the low bits, in order. A warp's leader writes its
// records in the order of their last clocks. Diverged lanes may record times that are slightly earlier than
// those in the previous record.
class Unwrapped {
 public:
  explicit Unwrapped(uint64_t first) : clock_(first) {}
  // Advances to a record whose last clock has these low bits.
  void advance(uint32_t low) {
    before_ = clock_;
    const uint32_t ahead = low - static_cast<uint32_t>(clock_), back = uint32_t{0} - ahead;
    clock_ = back < kDisorder ? clock_ - back : clock_ + ahead;
  }
  // Returns the time of a clock in this record, which is at most 2^32 clocks older than the record's last
  // clock.
  uint64_t time(uint32_t low) const { return clock_ - (static_cast<uint32_t>(clock_) - low); }
  uint64_t now() const { return clock_; }
  // Returns the last time of the previous record.
  uint64_t before() const { return before_; }

 private:
  static constexpr uint32_t kDisorder = 1 << 20;
  uint64_t clock_, before_ = 0;
};

// The cost of recording, in clocks: of reading a clock, and of writing a record of one unit.
struct Cost {
  double clock = 0, record = 0;

  explicit Cost(std::span<const std::byte> memory) {
    std::vector<double> reads, writes;
    constexpr uint64_t kFirst = kCalibrationRecords / 4;  // earlier records only fill the caches
    for (uint64_t i = kFirst; i + 1 < kCalibrationRecords; ++i) {
      const auto record = at<Record>(memory, i), next = at<Record>(memory, i + 1);
      for (uint32_t word = 0; word + 1 < kWords; ++word)
        reads.push_back(record.words[word + 1] - record.words[word]);
      writes.push_back(next.words[0] - record.words[kWords - 1]);
    }
    clock = middle(reads);
    record = std::max(0.0, middle(writes) - clock);
  }
};

// An event from a record, with its time.
struct Timed {
  ProfileFormat::Event event;
  uint64_t clock;
  uint32_t value;
  bool reads;      // whether it is the first event at its clock, so that the clock was read for it
  uint32_t units;  // units of its record, if it is the last event in the record
};

uint32_t words_of(const ProfileFormat::Site& site) {
  uint32_t words = 0;
  for (const ProfileFormat::Event& e : site) {
    if (e.clock != ProfileFormat::kBefore) words = std::max(words, e.clock + 1);
    if (ProfileFormat::has_value(e.kind)) words = std::max(words, e.value + 1);
  }
  return words;
}

// Creates a track's regions and marks from its events.
class TrackReader {
 public:
  TrackReader(Profile::Track& track, double period, const Cost& cost)
      : track_(track), period_(period), cost_(cost) {}

  void take(const Timed& timed, double time) {
    const uint32_t name = timed.event.name;
    if (timed.reads) spent_ += cost_.clock;
    // A region that begins at the time of the previous event includes the time to store that event's record.
    if (timed.event.clock != ProfileFormat::kBefore) at_event_ = spent_;
    switch (timed.event.kind) {
      case Kind::begin:
        open_.push_back({track_.regions.size(), at_event_});
        track_.regions.push_back({name, static_cast<int>(open_.size()) - 1, time, time, 0, false});
        break;
      case Kind::end:
        end(name, time);
        break;
      case Kind::mark_u32:
        track_.marks.push_back({name, time, static_cast<double>(timed.value)});
        break;
      case Kind::mark_s32:
        track_.marks.push_back({name, time, static_cast<double>(static_cast<int32_t>(timed.value))});
        break;
      case Kind::mark_f32:
        track_.marks.push_back({name, time, std::bit_cast<float>(timed.value)});
        break;
      case Kind::span_begin:
      case Kind::span_end:
        break;
    }
    if (timed.units) spent_ += cost_.record + (timed.units - 1) * cost_.clock;  // each unit is one store
  }

  // Ends the regions that are still open when the warp ends.
  void finish() {
    while (!open_.empty()) close(track_.end, false);
    track_.recording = period_ * spent_;
  }

 private:
  struct Open {
    size_t region;
    double spent;      // clocks spent on recording before the region's content
    double inner = 0;  // net time of the regions directly inside the region
  };

  // Ends the region with this name. Ignores the event if its beginning was lost or was recorded by diverged
  // lanes.
  void end(uint32_t name, double time) {
    if (std::none_of(open_.begin(), open_.end(),
                     [&](const Open& open) { return track_.regions[open.region].name == name; }))
      return;
    while (track_.regions[open_.back().region].name != name) close(time, false);
    close(time, true);
  }

  void close(double time, bool ended) {
    const Open open = open_.back();
    open_.pop_back();
    Profile::Region& region = track_.regions[open.region];
    region.end = std::max(time, region.begin);
    region.ended = ended;
    // A region takes at least as long as the regions in it, even if recording took less time than usual.
    const double whole = region.end - region.begin;
    region.net = std::clamp(whole - period_ * (spent_ - open.spent), std::min(open.inner, whole), whole);
    if (!open_.empty()) open_.back().inner += region.net;
  }

  Profile::Track& track_;
  const double period_;
  const Cost& cost_;
  std::vector<Open> open_;
  double spent_ = 0;     // clocks spent on recording so far
  double at_event_ = 0;  // value of spent_ at the time of the last event
};

// The beginning or end of a span in a CTA. A span is identified by its name and number.
struct SpanEnd {
  uint32_t cta, name, number;
  double time;
  bool begins;
};

// Returns the spans. Ends without an open span are ignored, because all warps of a warpgroup may record the
// same end.
std::vector<Profile::Span> spans_of(std::vector<SpanEnd> ends, const std::vector<Profile::Track>& tracks) {
  std::map<uint32_t, double> last;  // indexed by CTA
  for (const Profile::Track& track : tracks) last[track.cta] = std::max(last[track.cta], track.end);
  std::stable_sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  std::vector<Profile::Span> spans;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, size_t> open;
  for (const SpanEnd& e : ends) {
    const std::tuple key(e.cta, e.name, e.number);
    const auto known = open.find(key);
    if (e.begins && known == open.end()) {
      open[key] = spans.size();
      spans.push_back({e.name, e.cta, e.number, e.time, last[e.cta], false});
    } else if (!e.begins && known != open.end()) {
      spans[known->second].end = e.time;
      spans[known->second].ended = true;
      open.erase(known);
    }
  }
  return spans;
}

// Returns whether a region represents a role, i.e. is an outermost region with the role's name.
bool is_role(const Profile& profile, const Profile::Track& track, const Profile::Region& region) {
  return track.role >= 0 && region.depth == 0 &&
         profile.names[region.name] == profile.roles[static_cast<size_t>(track.role)];
}

uint32_t records_lost(uint32_t counted, uint32_t room) { return counted > room ? counted - room : 0; }

// Returns the largest number of records per warp that fits into 4 GB if there are `warps` warps.
uint64_t most_records(uint64_t warps) {
  constexpr uint64_t kMost = (uint64_t{4} << 30) / kRecordBytes;
  uint64_t records = kMostRecords;
  while (records > kLeastRecords &&
         kCalibrationRecords + warps * warp_records(static_cast<uint32_t>(records)) > kMost)
    records -= records / 8;
  return records;
}

std::string in_words(double nanoseconds) {
  return nanoseconds < 1e4 ? fmt::format("{:.0f} ns", nanoseconds)
                           : fmt::format("{:.1f} us", nanoseconds * 1e-3);
}

}  // namespace

Profile decode_profile(const Signature& signature, std::span<const std::byte> memory) {
  const ProfileFormat& format = format_of(signature);
  const uint32_t warps = warps_of(signature);
  const uint64_t part = warp_records(format.records), all = memory.size() / kRecordBytes;
  if (all < kCalibrationRecords)
    throw Error(
        fmt::format("profile: the memory has {} B, which is too little for any profile", memory.size()));
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("profile: the memory does not match what the kernel '{}' records: {}",
                            signature.kernel, what));
  };
  Profile profile;
  profile.kernel = signature.kernel;
  profile.names = format.names;
  profile.room = format.records;
  for (const ProfileFormat::Role& role : format.roles) profile.roles.push_back(role.name);

  std::vector<Header> headers;
  std::vector<uint64_t> indices;
  for (uint64_t i = 0; kCalibrationRecords + (i + 1) * part <= all; ++i) {
    const auto header = at<Header>(memory, kCalibrationRecords + i * part);
    if (header.started > 1) refuse(fmt::format("warp {} has started {} times", i, header.started));
    if (header.started == 0) continue;  // the launch had a smaller grid
    if (header.last_clock == 0) {
      ++profile.unfinished;
      continue;
    }
    headers.push_back(header);
    indices.push_back(i);
  }
  const Clocks clocks(headers);
  const Cost cost(memory);
  profile.clock_period = clocks.period;
  profile.event_cost = clocks.period * (cost.clock + cost.record / kWords);
  double first = 0, last = 0;
  uint64_t wanted = 0;
  std::vector<SpanEnd> ends;
  for (size_t n = 0; n < headers.size(); ++n) {
    const Header& h = headers[n];
    const auto warp = static_cast<uint32_t>(indices[n] % warps);
    Profile::Track track{h.sm,
                         static_cast<uint32_t>(indices[n] / warps),
                         warp,
                         -1,
                         clocks.time(h.sm, h.first_clock),
                         clocks.time(h.sm, h.last_clock),
                         0,
                         0,
                         0,
                         {},
                         {}};
    for (size_t r = 0; r < format.roles.size(); ++r)
      if (warp >= format.roles[r].first_warp && warp - format.roles[r].first_warp < format.roles[r].warps)
        track.role = static_cast<int>(r);
    std::vector<Timed> events;
    const uint64_t first_record = kCalibrationRecords + indices[n] * part + kHeaderRecords;
    auto read = [&](uint64_t from, uint32_t count) {
      Unwrapped clock(h.first_clock);
      uint32_t i = 0;
      while (i < count) {
        const auto record = at<Record>(memory, from + i);
        if (record.site == 0 || record.site > format.sites.size())
          refuse(fmt::format("record {} of warp {} is of site {}, but there are {}", i, indices[n],
                             record.site, format.sites.size()));
        const ProfileFormat::Site& site = format.sites[record.site - 1];
        const uint32_t units = units_of(words_of(site));
        if (from + i + units > all) refuse(fmt::format("record {} of warp {} is incomplete", i, indices[n]));
        const auto word = [&](uint32_t w) {
          uint32_t value;
          std::memcpy(&value, memory.data() + (from + i) * kRecordBytes + (w + 1) * sizeof value,
                      sizeof value);
          return value;
        };
        const auto last = std::find_if(site.rbegin(), site.rend(), [](const ProfileFormat::Event& e) {
          return e.clock != ProfileFormat::kBefore;
        });
        if (last != site.rend()) clock.advance(word(last->clock));
        uint64_t time = last != site.rend() ? clock.before() : clock.now();
        for (size_t e = 0; e < site.size(); ++e) {
          const bool reads =
              site[e].clock != ProfileFormat::kBefore && (e == 0 || site[e].clock != site[e - 1].clock);
          if (reads) time = clock.time(word(site[e].clock));
          events.push_back({site[e], time, ProfileFormat::has_value(site[e].kind) ? word(site[e].value) : 0,
                            reads, e + 1 == site.size() ? units : 0});
        }
        i += units;
      }
      return i;
    };
    const uint32_t lost = h.records - read(first_record, std::min(h.records, format.records));
    track.lost = lost + records_lost(h.apart, apart_records(format.records));
    read(first_record + place_of_apart(format.records), std::min(h.apart, apart_records(format.records)));
    std::stable_sort(events.begin(), events.end(),
                     [](const Timed& a, const Timed& b) { return a.clock < b.clock; });
    track.recorded = static_cast<uint32_t>(events.size());
    TrackReader reader(track, clocks.period, cost);
    for (const Timed& e : events) {
      const double time = clocks.time(h.sm, e.clock);
      reader.take(e, time);
      if (e.event.kind == Kind::span_begin || e.event.kind == Kind::span_end)
        ends.push_back({track.cta, e.event.name, e.value, time, e.event.kind == Kind::span_begin});
    }
    reader.finish();
    first = n == 0 ? track.begin : std::min(first, track.begin);
    last = n == 0 ? track.end : std::max(last, track.end);
    profile.recorded += track.recorded;
    profile.lost += track.lost;
    // Records of diverged lanes have only a quarter of the space.
    if (track.lost > 0) wanted = std::max({wanted, uint64_t{h.records}, 4 * uint64_t{h.apart}});
    profile.tracks.push_back(std::move(track));
  }
  // The number is doubled, because loops that wait have a different number of iterations in each run.
  profile.wanted =
      static_cast<uint32_t>(std::min(2 * wanted, most_records((all - kCalibrationRecords) / part)));
  for (Profile::Track& track : profile.tracks) {
    track.begin -= first, track.end -= first;
    for (Profile::Region& region : track.regions) region.begin -= first, region.end -= first;
    for (Profile::Mark& m : track.marks) m.time -= first;
  }
  for (SpanEnd& e : ends) e.time -= first;
  profile.spans = spans_of(std::move(ends), profile.tracks);
  profile.time = last - first;
  return profile;
}

std::vector<Profile::Row> Profile::rows() const {
  struct Found {
    std::vector<double> times;
    double total = 0;
  };
  constexpr int kAcross = std::numeric_limits<int>::max();  // key of spans, which follow the roles
  std::map<int, std::map<std::string, Found>> found;        // indexed by role and region
  const auto add_to = [&](int role, const std::string& region, double time) {
    Found& f = found[role][region];
    f.times.push_back(time);
    f.total += time;
  };
  std::map<uint32_t, std::pair<double, double>> ctas;  // beginning and end
  for (const Track& track : tracks) {
    auto& [begin, end] = ctas.try_emplace(track.cta, track.begin, track.end).first->second;
    begin = std::min(begin, track.begin), end = std::max(end, track.end);
    const auto add = [&](const std::string& region, double time) { add_to(track.role, region, time); };
    const auto role = std::find_if(track.regions.begin(), track.regions.end(),
                                   [&](const Region& region) { return is_role(*this, track, region); });
    const bool has_role = role != track.regions.end();
    if (!has_role) {
      double inner = 0;
      for (const Region& region : track.regions) inner += region.depth == 0 ? region.net : 0;
      add("", std::max(inner, track.end - track.begin - track.recording));
    }
    std::vector<std::string> paths;
    for (const Region& region : track.regions) {
      if (has_role && region.depth == 0) {  // time before or after a role does not belong to the role
        paths = {""};
        if (&region == &*role) add("", region.net);
        continue;
      }
      if (has_role && (region.begin < role->begin || region.begin > role->end)) continue;
      paths.resize(static_cast<size_t>(region.depth));
      const std::string& outer = paths.empty() ? std::string() : paths.back();
      paths.push_back(outer.empty() ? names[region.name] : outer + "/" + names[region.name]);
      add(paths.back(), region.net);
    }
  }
  std::set<uint32_t> with_spans;
  for (const Span& span : spans) {
    add_to(kAcross, names[span.name], span.end - span.begin);
    if (with_spans.insert(span.cta).second)
      add_to(kAcross, "", ctas.at(span.cta).second - ctas.at(span.cta).first);
  }
  std::vector<Row> rows;
  for (const auto& [role, regions] : found) {
    const std::string name = role < 0          ? "all warps"
                             : role == kAcross ? kSpans
                                               : roles[static_cast<size_t>(role)];
    const double whole = regions.at("").total;
    const size_t first = rows.size();
    for (const auto& [region, f] : regions)
      rows.push_back({name, region, f.times.size(), f.total, whole > 0 ? f.total / whole : 0, middle(f.times),
                      middle(f.times, 0.95)});
    std::stable_sort(rows.begin() + static_cast<ptrdiff_t>(first), rows.end(),
                     [](const Row& a, const Row& b) {
                       return a.region.empty() > b.region.empty() ||
                              (a.region.empty() == b.region.empty() && a.total > b.total);
                     });
  }
  return rows;
}

std::string Profile::summary() const {
  std::string text = fmt::format(
      "profile of {}: {} in {} warps, {} events; an event costs {:.1f} ns, which the times below leave out; "
      "a clock is {:.3f} ns\n",
      kernel, in_words(time), tracks.size(), recorded, event_cost, clock_period);
  if (lost)
    text +=
        fmt::format("{} records of events are lost: a warp has room for {}, but some had more\n", lost, room);
  if (unfinished) text += fmt::format("{} warps did not reach their end, and are left out\n", unfinished);
  if (std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.ends_with(kCompletion); }))
    text += fmt::format("regions that end in \"{}\" are waits that only this build of the kernel has\n",
                        kCompletion + 1);
  size_t width = 20;
  const std::vector<Row> all = rows();
  for (const Row& row : all) width = std::max({width, row.role.size(), row.region.size() + 2});
  text += fmt::format("{:{}} {:>9} {:>12} {:>8} {:>11} {:>11}\n", "role, region", width, "count", "total",
                      "share", "p50", "p95");
  double covered = 0;  // share of the role's time that its outermost regions cover
  for (size_t i = 0; i < all.size(); ++i) {
    const Row& row = all[i];
    text += fmt::format("{:{}} {:9} {:>12} {:7.1f}% {:>11} {:>11}\n",
                        row.region.empty() ? row.role : "  " + row.region, width, row.count,
                        in_words(row.total), 100 * row.share, in_words(row.p50), in_words(row.p95));
    if (!row.region.empty() && row.region.find('/') == std::string::npos) covered += row.share;
    if (i + 1 < all.size() && all[i + 1].role == row.role) continue;
    if (covered > 0 && row.role != kSpans)
      text += fmt::format("{:{}} {:30.1f}%\n", "  (in no region)", width, 100 * std::max(0.0, 1 - covered));
    covered = 0;
  }
  if (std::all_of(all.begin(), all.end(), [](const Row& row) { return row.region.empty(); }))
    text += "no regions: region(\"name\", ...) in the kernel makes them\n";
  return text;
}

ProfileBuffer::ProfileBuffer(Device& device, const Signature& signature, Dim3 grid, Where where)
    : signature_(signature) {
  CallersLine line(where);
  const uint64_t ctas = uint64_t{grid.x} * grid.y * grid.z, all = records_of(signature, ctas);
  if (all > UINT32_MAX)
    throw Error(fmt::format(
        "profile: {} CTAs of {} warps with room for {} records each need {:.1f} GB, but a buffer has at most "
        "{:.1f} GB: use fewer records",
        ctas, warps_of(signature), signature.profile->records, static_cast<double>(all) * kRecordBytes * 1e-9,
        static_cast<double>(UINT32_MAX) * kRecordBytes * 1e-9));
  buffer_ = Buffer(device, all * kRecordBytes);
  buffer_.fill(0);
}

ProfileBuffer::operator Argument() const { return pointer(buffer_, DType::u64); }

Profile ProfileBuffer::read() const { return decode_profile(signature_, buffer_.copy_out<std::byte>()); }

}  // namespace ptxbuilder::runtime
