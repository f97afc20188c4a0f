#define BYTES 0
#include "separable_products.h"
