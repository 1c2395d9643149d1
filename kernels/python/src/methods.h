/* The functions of ptxbuilder._ext, grouped by file. */
#ifndef PTXBUILDER_PYTHON_METHODS_H
#define PTXBUILDER_PYTHON_METHODS_H

#include "kernels/python/src/product.h"

extern PyMethodDef product_methods[], eager_methods[], attention_methods[], contraction_methods[],
    convolution_methods[], launch_methods[], packed_methods[], rows_methods[], ranks_methods[],
    sparse_methods[];

#endif
