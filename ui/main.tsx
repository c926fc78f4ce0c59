import { render } from 'preact';
import { App } from './app/app.tsx';
import { keepFocus } from './app/keep-focus.ts';
import './styles/tokens.css';
import './styles/base.css';
import './styles/parts.css';
import './styles/app.css';
import './styles/forced-colors.css';

keepFocus();
const place = document.getElementById('app');
if (place !== null) render(<App />, place);
