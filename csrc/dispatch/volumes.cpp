#include "dispatch/volumes.h"

namespace torch_conv {

namespace {

// Channels and planes as the channels of an image, if one stride leads from each to the next.
std::optional<Image> planes_as_channels(const Image& x) {
  if (x.c > 1 && x.d > 1 && x.stride_c != x.d * x.stride_d) return std::nullopt;
  Image image = x;
  image.c = x.c * x.d, image.d = 1;
  image.stride_c = x.d > 1 ? x.stride_d : x.stride_c, image.stride_d = 0;
  return image;
}

// Samples and planes as the samples of an image, if one stride leads from each to the next (channels_last_3d, one
// channel).
std::optional<Image> planes_as_samples(const Image& x) {
  if (x.n > 1 && x.d > 1 && x.stride_n != x.d * x.stride_d) return std::nullopt;
  Image image = x;
  image.n = x.n * x.d, image.d = 1;
  image.stride_n = x.d > 1 ? x.stride_d : x.stride_n, image.stride_d = 0;
  return image;
}

// Planes as the rows of an image.
std::optional<Image> planes_as_rows(const Image& x) {
  if (x.h > 1 && x.w > 1 && x.stride_h != x.w * x.stride_w) return std::nullopt;
  Image image = x;
  image.d = 1, image.h = x.d, image.w = x.h * x.w;
  image.stride_d = 0, image.stride_h = x.stride_d, image.stride_w = x.w > 1 ? x.stride_w : x.stride_h;
  return image;
}

bool keeps_axis(int64_t k, int64_t pad, int64_t stride) { return k == 1 && pad == 0 && stride == 1; }

}  // namespace

std::optional<Direct> as_images(const Direct& p) {
  Direct q = p;
  if (keeps_axis(p.kd, p.place.pad_z, p.place.stride_z) && p.one_window() && !p.bias && p.groups == p.in.c &&
      p.in.c == p.out.c && p.in.d == p.out.d) {
    const auto in = planes_as_channels(p.in), out = planes_as_channels(p.out);
    const auto in_samples = planes_as_samples(p.in), out_samples = planes_as_samples(p.out);
    if (in && out) q.in = *in, q.out = *out, q.groups = in->c;
    else if (in_samples && out_samples) q.in = *in_samples, q.out = *out_samples;
    else return std::nullopt;
    return q;
  }
  if (keeps_axis(p.kh, p.place.pad_y, p.place.stride_y) && keeps_axis(p.kw, p.place.pad_x, p.place.stride_x) &&
      p.in.h == p.out.h && p.in.w == p.out.w) {
    const auto in = planes_as_rows(p.in), out = planes_as_rows(p.out);
    if (!in || !out) return std::nullopt;
    q.in = *in, q.out = *out;
    q.kh = p.kd, q.kd = 1;
    q.place.pad_y = p.place.pad_z, q.place.stride_y = p.place.stride_z, q.place.dilation_y = p.place.dilation_z;
    q.place.pad_z = 0, q.place.stride_z = q.place.dilation_z = 1;
    q.place.dilation_x = 1;
    return q;
  }
  return std::nullopt;
}

Image cut(const Image& image, Range y, Range x) {
  Image part = image;
  part.data =
      static_cast<char*>(image.data) + (y.begin * image.stride_h + x.begin * image.stride_w) * size_of(image.dtype);
  part.h = y.size(), part.w = x.size();
  return part;
}

void for_each_plane(const Image& in, const Image& out, bool window_each_sample, bool window_each_channel,
                    const std::function<void(const Image& in, const Image& out, int64_t n)>& run) {
  const auto in_channels = planes_as_channels(in), out_channels = planes_as_channels(out);
  if (!window_each_sample && !window_each_channel && in_channels && out_channels)
    return run(*in_channels, *out_channels, 0);
  const auto in_samples = planes_as_samples(in), out_samples = planes_as_samples(out);
  if (!window_each_sample && in_samples && out_samples) return run(*in_samples, *out_samples, 0);
  const auto sample = [](const Image& x, int64_t n) {
    Image image = x;
    image.data = static_cast<char*>(x.data) + n * x.stride_n * size_of(x.dtype);
    image.n = x.d, image.stride_n = x.stride_d;
    image.d = 1, image.stride_d = 0;
    return image;
  };
  for (int64_t n = 0; n < in.n; ++n) run(sample(in, n), sample(out, n), n);
}

}  // namespace torch_conv
