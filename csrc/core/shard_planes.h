// The planes of a volume, for kernels that stream along z and read a shard's peers in place. Each shard has its own
// tensor map; the number of a plane tells the shard:
//
//   plane        -above.rows ...... -1 | 0 ........... d - 1 | d ....... d + below.rows - 1
//   map           above                | the shard's         | below
//   its plane z   0 ..................   0 .................   0 .....................
//
// The functions take a TensorMap of a volume that is no shard, or the ShardMaps of a shard. Chains over images read
// rows by the same functions.
#pragma once

#include "core/peer_rows.h"
#include "core/tma.h"

namespace torch_conv {

// The tensor maps of a shard and its peers, and the peers' planes. Without bulk copies the maps are empty.
struct ShardMaps {
  static constexpr int kAbove = 0, kOwn = 1, kBelow = 2;
  TensorMap maps[3];  // in place of a missing peer's map, which no kernel uses: the shard's own
  PeerRows peers;

  // map_of(volume) makes a map.
  template <typename MapOf>
  static ShardMaps of(const Image& shard, const Peers& peers, const MapOf& map_of) {
    return of(shard, peers, map_of, PeerRows::of_planes(peers, shard));
  }
  template <typename MapOf>
  static ShardMaps of_rows(const Image& shard, const Peers& peers, const MapOf& map_of) {
    return of(shard, peers, map_of, PeerRows::of(peers, shard));
  }

 private:
  template <typename MapOf>
  static ShardMaps of(const Image& shard, const Peers& peers, const MapOf& map_of, const PeerRows& rows) {
    const TensorMap map = map_of(shard);
    return {{peers.above.data ? map_of(peers.above) : map, map, peers.below.data ? map_of(peers.below) : map}, rows};
  }
};

// A shard holds planes [first_plane, end_of_planes), of a volume (or a shard) of d planes.
TC_HD int first_plane(const TensorMap&) { return 0; }
TC_HD int first_plane(const ShardMaps& v) { return -int(v.peers.above.rows); }
TC_HD int end_of_planes(const TensorMap&, int d) { return d; }
TC_HD int end_of_planes(const ShardMaps& v, int d) { return d + int(v.peers.below.rows); }

// Whether a shard holds each of the planes z - r to z + r.
TC_HD bool planes_around(const TensorMap&, int z, int r, int d) { return z >= r && z + r < d; }
TC_HD bool planes_around(const ShardMaps& v, int z, int r, int d) {
  return z >= r + first_plane(v) && z + r < end_of_planes(v, d);
}

// The plane that plane z of the extended volume stands for; less than kLeastPlane for none.
TC_HD int map_plane(const TensorMap&, int z, int d, Border border) { return map_index(z, d, border); }
// PeerRows::map_row with 32-bit comparisons: with 64-bit comparisons, chains of 9x9 windows spill 8 bytes.
TC_HD int map_plane(const ShardMaps& v, int z, int d, Border border) {
  if (z >= first_plane(v) && z < end_of_planes(v, d)) return z;
  const int mapped = map_index(z, d, border);
  return mapped < 0 ? PeerRows::kOutside : mapped;
}
template <typename Map>
constexpr int kLeastPlane = 0;
template <>
constexpr int kLeastPlane<ShardMaps> = PeerRows::kOutside + 1;

// The address of plane z of channel c of sample n, whose volume in this shard is `volume`.
template <typename T>
TC_HD const T* plane_in_memory(const TensorMap&, const T* volume, int64_t stride_d, int z, int, int, int) {
  return volume + z * stride_d;
}
template <typename T>
TC_HD const T* plane_in_memory(const ShardMaps& v, const T* volume, int64_t stride_d, int z, int d, int n, int c) {
  return v.peers.row(volume, stride_d, z, d, n, c);
}

// The shard of plane z, and the plane's number there. A plane of no shard is outside the shard's map, from which bulk
// copies read zeros.
struct PlaneOfShard {
  int shard, z;
};
TC_HD PlaneOfShard plane_of_shard(const TensorMap&, int z, int) { return {ShardMaps::kOwn, z}; }
TC_HD PlaneOfShard plane_of_shard(const ShardMaps& v, int z, int d) {
  const bool above = z < 0 && z >= first_plane(v), below = z >= d && z < end_of_planes(v, d);
  const int shard = above ? ShardMaps::kAbove : below ? ShardMaps::kBelow : ShardMaps::kOwn;
  return {shard, above ? z - first_plane(v) : below ? z - d : z};
}
TC_HD const TensorMap* map_of_shard(const TensorMap& map, int) { return &map; }
TC_HD const TensorMap* map_of_shard(const ShardMaps& v, int shard) { return v.maps + shard; }

}  // namespace torch_conv
