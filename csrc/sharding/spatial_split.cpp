// A call on shards along a spatial dimension.
#include <algorithm>
#include <span>

#include "graph/allocate.h"
#include "sharding/spatial_layout.h"
#include "sharding/split.h"
#include "sharding/split_copies.h"
#include "sharding/split_streams.h"

namespace torch_conv {

namespace {

class SpatialSplit {
 public:
  SpatialSplit(const Call& call, int axes, const ShardedImage& image, const Footprint& footprint,
               const ShardCall& function)
      : call_(call),
        axes_(axes),
        image_(image),
        footprint_(footprint),
        function_(function),
        from_end_(image.from_end()),
        layout_(call_, axes, image, footprint) {}

  // The results of the wanted shards.
  std::vector<Tensor> run(const Sizes& wanted);

 private:
  Tensor result_of(const ShardOutputs& shard) const;
  // `shards`: this one first, then shards that are not filtered yet.
  void filter_interior(ShardOutputs& shard, std::span<ShardOutputs> shards);
  bool filter_in_place(ShardOutputs& shard, std::span<ShardOutputs> shards);
  void filter_boundaries(const ShardOutputs& shard, std::vector<BoundaryStrip>& strips);
  void copy_rows_to(std::span<BoundaryStrip> strips) const;
  void copy_outputs_of(std::span<BoundaryStrip> strips, const ShardOutputs& shard);
  void* begin_boundaries(const ShardOutputs& shard, std::span<BoundaryStrip> strips);
  // `tensor` holds all rows that the outputs read; the first one's window starts `pad` before it.
  void filter_rows(const ShardOutputs& shard, const Tensor& tensor, int64_t pad, Range outputs);
  Part part_of(int64_t pad, Range outputs, const Tensor& result) const;
  Tensor filter(const Tensor& tensor, Part* part);  // all outputs of the tensor where `part` is null
  void explain(const ShardOutputs& shard, const char* part) const;

  const Call& call_;
  int axes_;
  const ShardedImage& image_;
  const Footprint& footprint_;
  const ShardCall& function_;
  int64_t from_end_;
  SpatialLayout layout_;
  std::optional<SplitStreams> streams_;
};

std::vector<Tensor> SpatialSplit::run(const Sizes& wanted) {
  std::vector<ShardOutputs> shards;
  for (int64_t i : wanted) {
    ShardOutputs shard = layout_.outputs_of(size_t(i));
    if (shard.interior.size() == 0 || !footprint_.all_rows || shard.above || shard.below)
      shard.result = result_of(shard);
    shards.push_back(std::move(shard));
  }
  streams_.emplace(call_, image_.shards, shards.size() > 1);
  record_streams(call_, image_.shards, shards.size() > 1);
  for (size_t i = 0; i < shards.size(); ++i)
    if (!shards[i].done) filter_interior(shards[i], std::span(shards).subspan(i));
  std::vector<BoundaryStrip> strips;  // must live until all streams have read their rows
  for (const ShardOutputs& shard : shards)
    if (!shard.done) filter_boundaries(shard, strips);
  streams_->finish();
  record_finish(call_);
  std::vector<Tensor> results;
  for (const ShardOutputs& shard : shards) results.push_back(shard.result);
  return results;
}

Tensor SpatialSplit::result_of(const ShardOutputs& shard) const {
  Sizes sizes = footprint_.result;
  sizes[sizes.size() - from_end_] = shard.outputs.size();
  return footprint_.contiguous || sizes.size() != size_t(shard.input->dim())
             ? allocate(call_, *shard.input, sizes, footprint_.dtype)
             : empty_result(call_, *shard.input, sizes, axes_, footprint_.dtype);
}

void SpatialSplit::filter_interior(ShardOutputs& shard, std::span<ShardOutputs> shards) {
  if (shard.interior.size() == 0 || filter_in_place(shard, shards)) return;
  explain(shard, "its interior");
  if (footprint_.all_rows) {
    shard.result = filter(*shard.input, nullptr);  // filter_boundaries() overwrites the outputs of the strips
    return;
  }
  // The rows before the first window would make a negative pad, which tiles do not take along y.
  const Range rows = image_.rows_of(shard.index);
  const int64_t begin = std::max(rows.begin, layout_.rows_read_by(shard.interior).begin);
  filter_rows(shard, narrow(*shard.input, image_.dim, begin - rows.begin, rows.end - begin),
              begin - layout_.first_row(shard.interior.begin), shard.interior);
}

// Offers the shard to kernels that read its neighbours in place. False: none does.
bool SpatialSplit::filter_in_place(ShardOutputs& shard, std::span<ShardOutputs> shards) {
  if (!shard.above && !shard.below) return false;
  Part part = part_of(layout_.pad_of(shard), shard.outputs, shard.result);
  for (ShardOutputs& other : shards)
    if ((other.above || other.below) && layout_.pad_of(other) == part.pad) part.shards.push_back(&other);
  const size_t lines = call_.lines ? call_.lines->size() : 0;
  explain(shard, "its interior and its boundary strips, which read other shards in place; and further shards likewise");
  filter(*shard.input, &part);
  if (!shard.done && call_.lines) call_.lines->resize(lines);
  return shard.done;
}

void SpatialSplit::filter_boundaries(const ShardOutputs& shard, std::vector<BoundaryStrip>& all) {
  const size_t first = all.size();
  const auto& [begin, end] = shard.interior;
  for (const Range& outputs : {Range{shard.outputs.begin, begin}, {end, shard.outputs.end}})
    if (outputs.size() > 0) all.push_back(layout_.strip_of(shard, outputs));
  if (all.size() == first) return;
  explain(shard, "its boundary strips, from rows that are copied");
  const std::span strips = std::span(all).subspan(first);
  {
    const CurrentStream side(*shard.input, begin_boundaries(shard, strips));
    copy_rows_to(strips);
    for (BoundaryStrip& strip : strips) {
      if (footprint_.all_rows) strip.tensor = filter(strip.tensor, nullptr);
      else filter_rows(shard, strip.tensor, strip.pad, strip.outputs);
    }
  }
  streams_->end(*shard.input, true);
  if (call_.graph)
    call_.graph->record([input = call_.graph->index_of(*shard.input)](Replay& r) {
      r.on_shards->side.reset(), r.on_shards->streams.end(r.tensor(input), true);
    });
  if (footprint_.all_rows) copy_outputs_of(strips, shard);
}

// Enters the side stream, once the shards whose rows the strips read are ready.
void* SpatialSplit::begin_boundaries(const ShardOutputs& shard, std::span<BoundaryStrip> strips) {
  std::vector<const Tensor*> others;
  std::vector<int> indices;
  for (const BoundaryStrip& strip : strips)
    layout_.for_each_run(strip, [&](const Tensor& read, int64_t, int64_t) {
      others.push_back(&read);
      if (call_.graph) indices.push_back(call_.graph->index_of(read));
    });
  if (call_.graph) record_side_stream(*call_.graph, call_.graph->index_of(*shard.input), indices, false);
  return streams_->begin(*shard.input, others, true);
}

void SpatialSplit::copy_rows_to(std::span<BoundaryStrip> strips) const {
  RowCopies copies;
  for (BoundaryStrip& strip : strips) {
    Sizes sizes = sizes_of(strip.tensor);
    sizes[image_.dim] = 0;
    for (const Range& rows : strip.rows) sizes[image_.dim] += rows.size();
    strip.tensor = empty_result(call_, strip.tensor, sizes, axes_, strip.tensor.scalar_type());
    int64_t at = 0;
    layout_.for_each_run(strip, [&](const Tensor& shard, int64_t first, int64_t rows) {
      copies.add({strip.tensor, shard, at, first, rows, image_.dim});
      at += rows;
    });
  }
  copies.run(call_);
}

void SpatialSplit::copy_outputs_of(std::span<BoundaryStrip> strips, const ShardOutputs& shard) {
  RowCopies copies;
  for (const BoundaryStrip& strip : strips)
    copies.add({shard.result, strip.tensor, strip.outputs.begin - shard.outputs.begin, layout_.axis().pad - strip.pad,
                strip.outputs.size(), strip.tensor.dim() - from_end_});
  copies.run(call_);
  streams_->delay_side(*shard.input);
  if (call_.graph)
    call_.graph->record(
        [input = call_.graph->index_of(*shard.input)](Replay& r) { r.on_shards->streams.delay_side(r.tensor(input)); });
}

void SpatialSplit::filter_rows(const ShardOutputs& shard, const Tensor& tensor, int64_t pad, Range outputs) {
  const int64_t at = outputs.begin - shard.outputs.begin;
  Part part = part_of(pad, outputs, narrow(shard.result, shard.result.dim() - from_end_, at, outputs.size()));
  filter(tensor, &part);
}

Part SpatialSplit::part_of(int64_t pad, Range outputs, const Tensor& result) const {
  return {.axis = int(kAxes - from_end_),
          .pad = pad,
          .out = outputs.size(),
          .first = outputs.begin,
          .whole_rows = image_.size(),
          .result = result};
}

Tensor SpatialSplit::filter(const Tensor& tensor, Part* part) {
  OnShards shards{.part = part, .whole_footprint = part ? &footprint_ : nullptr, .streams = &*streams_};
  Call call = call_on(call_, shards);
  return function_(call, tensor);
}

// Says which shard the following lines of an explanation are about.
void SpatialSplit::explain(const ShardOutputs& shard, const char* part) const {
  if (!call_.runs()) call_.explain("shard " + std::to_string(shard.index) + ", " + part);
}

}  // namespace

std::vector<Tensor> run_spatial(const Call& call, int axes, const ShardedImage& image, const Sizes& wanted,
                                const Footprint& footprint, const ShardCall& function) {
  return SpatialSplit(call, axes, image, footprint, function).run(wanted);
}

}  // namespace torch_conv
