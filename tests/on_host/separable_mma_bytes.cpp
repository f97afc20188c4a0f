#define BYTES 1
#include "separable_mma.h"
