import { type HrTime, ValueType } from '@opentelemetry/api';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { emptyResource } from '@opentelemetry/resources';
import { AggregationTemporality, DataPointType, type MetricData } from '@opentelemetry/sdk-metrics';
import type { MetricPoints } from './metrics.ts';

const serializer = new PrometheusSerializer('', false, undefined, true, true);
/** The serializer writes no time. */
const NO_TIME: HrTime = [0, 0];

/** Metrics in the Prometheus text format. A metric without points is left out. */
export function prometheusText(all: readonly MetricPoints[]): string {
  const metrics = all.filter(({ points }) => points.length > 0).map(metricData);
  const scopeMetrics = [{ scope: { name: 'tracectl' }, metrics }];
  return serializer.serialize({ resource: emptyResource(), scopeMetrics });
}

function metricData(metric: MetricPoints): MetricData {
  const { name, description } = metric;
  const shared = {
    descriptor: { name, description, unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  const times = { startTime: NO_TIME, endTime: NO_TIME };
  if (metric.type === 'histogram') {
    const dataPoints = metric.points.map(({ labels, count, sum, buckets, bounds }) => ({
      ...{ ...times, attributes: labels },
      value: { count, sum, buckets: { boundaries: [...bounds], counts: [...buckets] } },
    }));
    return { ...shared, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = metric.points.map(({ labels = {}, value }) => {
    return { ...times, attributes: labels, value };
  });
  return metric.type === 'counter'
    ? { ...shared, dataPointType: DataPointType.SUM, dataPoints, isMonotonic: true }
    : { ...shared, dataPointType: DataPointType.GAUGE, dataPoints };
}
