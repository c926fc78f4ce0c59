import type { Labels } from '../component/component.ts';
import type {
  FlowCount,
  FlowDurations,
  FlowEdge,
  FlowNode,
  FlowReport,
} from '../component/flow.ts';
import type { ServiceMetrics } from '../telemetry/metrics.ts';
import { DURATIONS } from './edges.ts';
import type { Graph, Node } from './graph.ts';

type Totals = Pick<ServiceMetrics, 'counts' | 'records'>;
type Kind = FlowNode['kind'];

/** Reports the graph with the counters that its edges keep. */
export function flowOf(graph: Graph, metrics: Totals, since: number): FlowReport {
  const nodes = [
    ...graph.receivers.map((node) => receiverFlow(node, node.pipelineId, metrics)),
    ...graph.processors.map((node) => processorFlow(node, node.pipelineId, metrics)),
    ...graph.connectors.map((node) => sinkFlow(node, 'connector', metrics)),
    ...graph.exporters.map((node) => sinkFlow(node, 'exporter', metrics)),
  ];
  return { since, nodes, edges: edgesOf(graph) };
}

const NOTHING = { rejected: {}, refused: {}, dropped: {}, failed: {} };

function receiverFlow(node: Node, pipeline: string, metrics: Totals): FlowNode {
  const of = { receiver: node.declared.id, pipeline };
  const outcomes = byLabel(metrics, 'tracectl_receiver_requests_total', of, 'outcome');
  return {
    ...about(node, 'receiver', pipeline),
    counts: {
      requests: sum(Object.values(outcomes)),
      failed_requests: outcomes.failed ?? 0,
      items_out:
        total(metrics, 'tracectl_receiver_accepted_items_total', of) +
        total(metrics, 'tracectl_receiver_delivered_items_total', of),
    },
    codes: {
      ...NOTHING,
      rejected: byLabel(metrics, 'tracectl_receiver_rejected_items_total', of, 'code'),
      refused: byLabel(metrics, 'tracectl_receiver_refusals_total', of, 'code'),
    },
    ...durations(metrics, DURATIONS.receiver, of),
  };
}

function processorFlow(node: Node, pipeline: string, metrics: Totals): FlowNode {
  const of = { processor: node.declared.id, pipeline };
  return {
    ...about(node, 'processor', pipeline),
    counts: {
      items_in: total(metrics, 'tracectl_processor_incoming_items_total', of),
      items_out: total(metrics, 'tracectl_processor_outgoing_items_total', of),
      items_edited: total(metrics, 'tracectl_processor_edited_items_total', of),
    },
    codes: {
      ...NOTHING,
      rejected: byLabel(metrics, 'tracectl_processor_rejected_items_total', of, 'code'),
      dropped: byLabel(metrics, 'tracectl_processor_dropped_items_total', of, 'reason'),
    },
  };
}

/** An exporter or connector, over the pipelines that name it. */
function sinkFlow(node: Node, kind: 'exporter' | 'connector', metrics: Totals): FlowNode {
  const { id } = node.declared;
  const of = { exporter: id, kind };
  const failed = byLabel(metrics, 'tracectl_exporter_send_failed_items_total', of, 'code');
  const sent = total(metrics, 'tracectl_exporter_sent_items_total', of);
  const counts: Partial<Record<FlowCount, number>> =
    kind === 'connector'
      ? {
          items_in: sent,
          items_out: total(metrics, 'tracectl_connector_delivered_items_total', { connector: id }),
        }
      : {
          items_out: sent,
          retries: total(metrics, 'tracectl_otlphttp_retries_total', { exporter: id }),
        };
  return {
    ...about(node, kind, null),
    counts,
    codes: { ...NOTHING, failed },
    ...durations(metrics, DURATIONS.exporter, of),
  };
}

function about({ key, declared }: Node, kind: Kind, pipeline: string | null) {
  return { key, kind, id: declared.id, type: declared.factory.type, pipeline };
}

/** From each receiver or connector through the processors of its pipeline to each exporter. */
function edgesOf({ pipelines, receivers, connectors }: Graph): FlowEdge[] {
  return [...pipelines.values()].flatMap(({ id: pipeline, processors, exporters }) => {
    const sources = [
      ...receivers.filter(({ pipelineId }) => pipelineId === pipeline),
      ...connectors.filter(({ pipelineIds }) => pipelineIds.includes(pipeline)),
    ];
    const stages: (readonly Node[])[] = [sources, ...processors.map((node) => [node]), exporters];
    return stages
      .slice(1)
      .flatMap((stage, before) =>
        (stages[before] ?? []).flatMap(({ key: from }) =>
          stage.map(({ key: to }) => ({ from, to, pipeline })),
        ),
      );
  });
}

function total(metrics: Totals, name: string, of: Labels): number {
  return sum(metrics.counts(name).flatMap(({ labels, value }) => (fits(labels, of) ? value : [])));
}

function byLabel(metrics: Totals, name: string, of: Labels, label: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const { labels, value } of metrics.counts(name)) {
    const key = labels[label];
    if (key === undefined || !fits(labels, of)) continue;
    found[key] = (found[key] ?? 0) + value;
  }
  return found;
}

function durations(
  metrics: Totals,
  name: string,
  of: Labels,
): { readonly durations?: FlowDurations } {
  const found = metrics.records(name).filter(({ labels }) => fits(labels, of));
  const [first] = found;
  if (first === undefined) return {};
  const { bounds } = first;
  return {
    durations: {
      count: sum(found.map(({ count }) => count)),
      sum: sum(found.map((each) => each.sum)),
      bounds,
      buckets: first.buckets.map((_, i) => sum(found.map(({ buckets }) => buckets[i] ?? 0))),
    },
  };
}

function fits(labels: Labels, of: Labels): boolean {
  return Object.entries(of).every(([name, value]) => labels[name] === value);
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
