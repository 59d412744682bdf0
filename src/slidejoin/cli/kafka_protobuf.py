"""Messages of Protobuf on Spark: columns that workers decode and encode in blocks, see `ProtobufRows`.

Spark's own functions for Protobuf are in a package that Spark 4 has not published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from slidejoin.cli.job import Encoding
    from slidejoin.pipeline.protobuf_records import ProtobufRows

__all__ = ["VALUE", "WHY", "protobuf_column", "protobuf_fields", "protobuf_written"]

VALUE, WHY = "value", "why"
"""Fields of a decoded message: its own fields, and why it cannot be read."""


def _rows(encoding: Encoding) -> ProtobufRows:
    from slidejoin.pipeline.protobuf_records import protobuf_rows  # noqa: PLC0415 - loads PyArrow

    if encoding.descriptors is None or encoding.message is None:
        msg = "a value of Protobuf needs a descriptor and a message"
        raise ConfigError(msg)
    return protobuf_rows(encoding.descriptors, encoding.message)


def protobuf_fields(encoding: Encoding) -> tuple[str, ...]:
    """Return the names of the fields of a message."""
    return tuple(_rows(encoding).schema.names)


def protobuf_column(raw: Column, encoding: Encoding) -> Column:
    """Return bytes as a struct of `VALUE` and `WHY`."""
    from pyspark.sql.functions import ArrowUDFType, arrow_udf  # noqa: PLC0415 - belongs to an extra
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - as above

    kind = StructType([StructField(VALUE, _spark_type(_rows(encoding).schema)), StructField(WHY, StringType())])
    return arrow_udf(_decoder(encoding), kind, ArrowUDFType.SCALAR)(raw)


def protobuf_written(row: Column, columns: list[str], encoding: Encoding, where: str) -> Column:
    """Return a struct of columns as bytes.

    Raises
    ------
    ConfigError
        If a field of the message has no column.
    """
    from pyspark.sql.functions import ArrowUDFType, arrow_udf  # noqa: PLC0415 - belongs to an extra
    from pyspark.sql.types import BinaryType  # noqa: PLC0415 - as above

    _rows(encoding).check(columns, where)
    return arrow_udf(_encoder(encoding), BinaryType(), ArrowUDFType.SCALAR)(row)


def _spark_type(schema: pa.Schema) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - belongs to an extra

    return from_arrow_schema(schema)


def _decoder(encoding: Encoding) -> Callable[[Any], Any]:
    """Return the function for workers; nested, so that it is pickled by value and loads what it needs there."""
    descriptors, message, registry = encoding.descriptors, encoding.message, encoding.registry

    def decode(values: pa.Array[Any]) -> pa.Array[Any]:
        import numpy as np  # noqa: PLC0415 - in the worker
        import pyarrow as pa  # noqa: PLC0415 - as above

        from slidejoin.pipeline.protobuf_records import protobuf_rows  # noqa: PLC0415 - as above

        rows, bad = protobuf_rows(descriptors, message).read(values.to_pylist(), registry=registry)
        whole = rows.to_struct_array().combine_chunks() if rows.num_rows else pa.array([], pa.struct(rows.schema))
        why = pa.array([bad.get(place) for place in range(len(values))], pa.string())
        if bad:
            good = np.ones(len(values), np.bool_)
            good[list(bad)] = False
            whole = whole.take(pa.array(np.cumsum(good) - 1, mask=~good))
        return pa.StructArray.from_arrays([whole, why], [VALUE, WHY])

    return decode


def _encoder(encoding: Encoding) -> Callable[[Any], Any]:
    """Return the function for workers, as `_decoder` does."""
    descriptors, message = encoding.descriptors, encoding.message

    def encode(rows: pa.StructArray) -> pa.Array[Any]:
        import pyarrow as pa  # noqa: PLC0415 - in the worker

        from slidejoin.pipeline.protobuf_records import protobuf_rows  # noqa: PLC0415 - as above

        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
        return pa.array(protobuf_rows(descriptors, message).write(table), pa.binary())

    return encode
