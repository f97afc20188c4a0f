#include "sharding/geometry.h"

#include "tensors/boxed.h"

namespace torch_conv {

namespace {

int64_t modulo(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

// Circular rows beyond an end of the image: the rows at this end and the rows at the other one.
std::vector<Range> rows_at_both_ends(Range rows, int64_t n, const AxisFootprint& r) {
  const auto [low, high] = rows;
  const std::vector<Range> all_rows{{0, n}};
  if (r.pad >= r.length || high <= 0 || low >= n || (low < 0 && high > n)) return all_rows;
  if (low < 0) return high < n + low ? std::vector<Range>{{0, high}, {n + low, n}} : all_rows;
  const int64_t begin = low - modulo(low - (high - n), r.stride * r.group);
  return high - n < begin ? std::vector<Range>{{0, high - n}, {begin, n}} : all_rows;
}

// One range of rows around the windows `under`. `outputs_end`: the end of the rows that the piece's outputs belong to.
Range rows_around_windows(Range under, int64_t outputs_end, int64_t n, const AxisFootprint& r) {
  const auto [low, high] = under;
  int64_t begin = std::clamp<int64_t>(low, 0, n - 1), end = std::max({std::min(high, n), outputs_end, begin + 1});
  // A mirrored border reads as many rows inside as outside, and a chain of windows reads a window further.
  if (low < 0) end = std::max(end, std::min(n, r.length - low));
  if (high > n) begin = std::min(begin, std::max<int64_t>(0, 2 * n - high - r.length));
  if (r.pad >= r.length) {  // a convolution refuses a piece that is not longer than its padding
    begin = std::max<int64_t>(0, std::min(begin, end - r.pad - 1));
    end = std::min(n, std::max(end, begin + r.pad + 1));
  }
  return {begin - begin % (r.stride * r.group), end};  // outputs of the piece are outputs of the image
}

}  // namespace

Range rows_read(Range outputs, const AxisFootprint& r, int64_t n, Border border) {
  const auto [begin, end] = rows_under(outputs, r);
  if (border == Border::circular) return {begin, end};
  Range rows{std::clamp<int64_t>(begin, 0, n - 1), std::clamp<int64_t>(end, 1, n)};
  if (!is_mirror(border)) return rows;
  const int64_t above = std::max<int64_t>(0, -begin), below = std::max<int64_t>(0, end - n);
  if (above > 0) rows.end = std::max(rows.end, std::min(n, above + 1));
  if (below > 0) rows.begin = std::min(rows.begin, std::max<int64_t>(0, n - 1 - below));
  return std::max(above, below) < n ? rows : Range{0, n};
}

std::vector<Run> runs_of(Range rows, const Sizes& bounds, Border border) {
  const int64_t n = bounds.back();
  std::vector<Run> runs;
  int64_t before = 0;  // the row that stands for the one in front
  for (int64_t row = rows.begin, count; row < rows.end; row += count) {
    const int64_t at = n == 0 ? -1 : map_index(row, n, border), holder = at < 0 ? -1 : holder_of(at, bounds);
    const int64_t first = at < 0 ? 0 : at - bounds[holder], step = at - before;
    const bool inside = row >= 0 && row < n;
    count = inside ? std::min(rows.end, bounds[holder + 1]) - row : 1;
    before = at;
    Run* last = runs.empty() || inside || row == n ? nullptr : &runs.back();  // a run ends at the image's ends
    const bool steps = border == Border::circular ? step == 1 : std::abs(step) <= 1;
    if (last && last->holder == holder && steps && (last->count == 1 || last->step == step)) {
      *last = {holder, std::min(last->first, first), last->count + 1, step};
    } else {
      runs.push_back({holder, first, count, at < 0 ? 0 : 1});
    }
  }
  return runs;
}

Piece piece_for(Range outputs, int64_t n, const AxisFootprint& r, bool circular, Range held) {
  if (outputs.size() <= 0) return {{}, 0, 0, {0, 0}, 0};
  const Range under = rows_under(outputs, r);
  // With padding='same' an output belongs to the row whose number is the output's number times the stride.
  const int64_t outputs_end = std::min((outputs.end - 1) * r.stride + 1, n);
  Piece piece{{}, 0, outputs.size(), {}, 0};
  if (circular && (under.begin < 0 || under.end > n))
    piece.rows = rows_at_both_ends({under.begin, std::max(under.end, outputs_end)}, n, r);
  else piece.rows = {rows_around_windows(under, outputs_end, n, r)};
  int64_t size = 0;
  for (const Range& rows : piece.rows) size += rows.size();
  // Row i of the image is row i - ahead of the piece, for the rows that the outputs belong to.
  const int64_t ahead =
      piece.rows.size() == 1 || under.begin < 0 ? piece.rows[0].begin : piece.rows[1].begin - piece.rows[0].end;
  // The piece is cut between the rows of wanted outputs and the rows of other outputs. Several positions may serve; an
  // end of the shard's own rows comes first.
  const auto cut_at = [&](int64_t output, int64_t shard_end) {
    const int64_t highest = output * r.stride + r.middle;
    return (highest - r.stride < shard_end && shard_end <= highest ? shard_end : highest) - ahead;
  };
  piece.cut.begin = std::min(std::max<int64_t>(cut_at(outputs.begin, held.begin), 0), size - 1);
  piece.cut.end = std::max(std::min(cut_at(outputs.end, held.end), size), piece.cut.begin + 1);
  const int64_t start = piece.cut.begin;
  const int64_t belonging = start > 0 ? std::max<int64_t>(0, ceil_div_signed(start - r.middle, r.stride)) : 0;
  piece.skip = outputs.begin - ahead / r.stride;
  piece.cut_skip = piece.skip - belonging;
  return piece;
}

namespace {

// The footprint along one axis in an answer of api/query.h: six numbers and the border.
struct FootprintOfQuery {
  explicit FootprintOfQuery(const Sizes& x) : axis{x[0], x[1], x[2], x[3], x[4], x[5]}, border(Border(x[6])) {}

  AxisFootprint axis;
  Border border;
};

// Four numbers a run.
Sizes shard_runs(int64_t low, int64_t high, Sizes bounds, int64_t border) {
  Sizes numbers;
  for (const Run& run : runs_of({low, high}, bounds, Border(border)))
    numbers.insert(numbers.end(), {run.holder, run.first, run.count, run.step});
  return numbers;
}

// skip, count, cut, cut_skip, and the ranges of rows.
Sizes shard_piece(int64_t first, int64_t last, int64_t n, Sizes footprint, Sizes held) {
  const FootprintOfQuery f(footprint);
  const Piece piece = piece_for({first, last}, n, f.axis, f.border == Border::circular, {held[0], held[1]});
  Sizes numbers{piece.skip, piece.count, piece.cut.begin, piece.cut.end, piece.cut_skip};
  for (const Range& rows : piece.rows) numbers.insert(numbers.end(), {rows.begin, rows.end});
  return numbers;
}

// A flag for each pair of shards, row by row: whether the first one's result is computed from the second one.
Sizes shards_read(Sizes sizes, Sizes footprint) {
  const FootprintOfQuery f(footprint);
  const size_t shards = sizes.size();
  Sizes bounds{0}, flags(shards * shards, 0);
  for (const int64_t size : sizes) bounds.push_back(bounds.back() + size);
  const int64_t n = bounds.back();
  for (size_t i = 0; i < shards; ++i) {
    const Range outputs{outputs_before(bounds[i], f.axis, n), outputs_before(bounds[i + 1], f.axis, n)};
    if (outputs.size() <= 0) continue;
    for (const Run& run : runs_of(rows_read(outputs, f.axis, n, f.border), bounds, f.border))
      if (run.holder >= 0) flags[i * shards + run.holder] = 1;
  }
  return flags;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_borders", boxed<&borders_with_aliases, "_borders">);
  m.impl("_shard_runs", boxed<&shard_runs, "_shard_runs">);
  m.impl("_shard_piece", boxed<&shard_piece, "_shard_piece">);
  m.impl("_shards_read", boxed<&shards_read, "_shards_read">);
}

}  // namespace torch_conv
