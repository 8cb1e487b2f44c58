"""The page's style sheet: one column, light or dark as the reader's system is, printable."""

CSS = """
:root {
  --page: #f4f5f7; --card: #ffffff; --ink: #1d2433; --soft: #5a6478; --faint: #8b94a5; --rule: #e3e6ec;
  --c0: #2a6fbb; --c1: #d9731a; --c2: #0f8b7d; --c3: #8a4fb5; --c4: #b8336a; --c5: #6b7a0f;
  --good: #1c8a56; --bad: #c23b3b; --open: #8b94a5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151c; --card: #1b202b; --ink: #e7eaf1; --soft: #a6afc0; --faint: #7c8699; --rule: #2c3342;
    --c0: #6aa9ee; --c1: #f0a055; --c2: #4cc2b3; --c3: #c091ea; --c4: #f083ae; --c5: #b9c954;
    --good: #4fc48a; --bad: #ef7d7d; --open: #7c8699;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 36px 20px 64px; }
header h1 { margin: 0 0 4px; font-size: 27px; letter-spacing: -0.01em; }
header p { margin: 0; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 14px;
  margin: 24px 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 14px 16px;
  border-top: 4px solid var(--hue); }
.tile.weak { border-top-style: dashed; }
.tile h3 { margin: 0; font-size: 14px; font-weight: 600; overflow-wrap: anywhere; }
.tile .sub { color: var(--soft); font-size: 13px; }
.tile .big { font-size: 31px; font-weight: 650; letter-spacing: -0.02em; line-height: 1.25;
  margin-top: 6px; }
.tile .big small { font-size: 14px; font-weight: 400; color: var(--soft); letter-spacing: 0; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; margin: 16px 0;
  padding: 20px 24px 22px; }
h2 { margin: 0 0 2px; font-size: 18px; }
section > p { margin: 2px 0 12px; color: var(--soft); max-width: 82ch; font-size: 14px; }
.two, .three { display: grid; gap: 10px 24px; }
.two { grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); }
.three { grid-template-columns: repeat(auto-fit, minmax(270px, 1fr)); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 8px 0 6px; font-size: 13.5px; }
.legend span { display: inline-flex; align-items: center; gap: 7px; }
.legend svg { width: 30px; height: 12px; }
svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { fill: var(--ink); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .tick, svg .axis { fill: var(--soft); font-size: 11.5px; }
svg .group, svg .pair { font-weight: 600; font-size: 13px; }
svg .value { font-size: 11px; fill: var(--soft); }
svg .faint { fill: var(--faint); font-size: 11.5px; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .base { stroke: var(--faint); stroke-width: 1; }
svg .zero { stroke: var(--ink); stroke-width: 1; opacity: .55; }
svg .cut { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 2 4; }
svg .error { stroke: var(--ink); stroke-width: 1.2; opacity: .75; }
svg .interval { stroke-width: 2.4; stroke-linecap: round; }
svg .interval.better { stroke: var(--good); } svg .mark.better, svg .part.better { fill: var(--good); }
svg .interval.worse { stroke: var(--bad); } svg .mark.worse, svg .part.worse { fill: var(--bad); }
svg .interval.open { stroke: var(--open); } svg .mark.open { fill: var(--open); }
svg .part.alike { fill: var(--rule); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: var(--soft); padding: 6px 9px;
  border-bottom: 1.5px solid var(--rule); vertical-align: bottom; }
td { text-align: right; border-bottom: 1px solid var(--rule); padding: 6px 9px; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
td small { color: var(--faint); font-size: 11.5px; display: block; line-height: 1.2; }
details { border-top: 1px solid var(--rule); padding: 8px 0; }
summary { cursor: pointer; font-weight: 550; }
summary small { color: var(--soft); font-weight: 400; }
pre { font: 12.5px/1.42 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  overflow-x: auto;  background: var(--page); border-radius: 8px; padding: 12px 14px; max-height: 480px; }
code { font-size: 13px; overflow-wrap: anywhere; }
ul { margin: 6px 0 0; padding-left: 20px; color: var(--soft); font-size: 14px; }
dt { font-weight: 600; margin-top: 8px; } dd { margin: 0; color: var(--soft); max-width: 86ch; }
@media print { body { background: none; } section, .tile { break-inside: avoid; } }
"""
